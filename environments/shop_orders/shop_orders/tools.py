"""The tool: a query of one shop's database. One server for all rollouts, because the databases are only read."""

from __future__ import annotations

import sqlite3

import verifiers.v1 as vf

from shop_orders import shops

_SHOPS = frozenset(shops.names("train") + shops.names("eval"))


class ShopOrdersToolset(vf.Toolset[vf.SharedToolsetConfig]):
    """One tool. A query that fails says why, beginning with `error`, so that the next can be better."""

    TOOL_PREFIX = None

    @vf.tool
    def run_sql(self, shop: str, sql: str) -> str:
        """Run one SELECT (SQLite) on the database of a shop, such as Linden 1; 20 rows at most."""
        if shop not in _SHOPS:
            return "error: there is no shop of this name"
        try:
            columns, rows = shops.query(shop, sql)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return f"error: {error}"
        lines = [" | ".join(columns), *(" | ".join(map(str, row)) for row in rows[: shops.SHOWN])]
        return "\n".join([*lines, "and more rows"] if len(rows) > shops.SHOWN else lines)


if __name__ == "__main__":
    ShopOrdersToolset.run()
