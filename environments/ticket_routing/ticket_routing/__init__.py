"""Support tickets to be routed to a team, each team as often as the others."""

from ticket_routing.taskset import TicketRoutingEnv, TicketRoutingTaskset

__all__ = ["TicketRoutingEnv", "TicketRoutingTaskset"]
