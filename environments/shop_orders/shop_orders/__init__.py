"""Questions about a shop's orders, answered by querying a generated SQLite database."""

from shop_orders.taskset import ShopOrdersEnv, ShopOrdersTaskset

__all__ = ["ShopOrdersEnv", "ShopOrdersTaskset"]
