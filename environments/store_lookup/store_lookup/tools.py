"""What the model can look up. One server for all rollouts: the database is only read.

No tool answers a question at once. It takes a chain of calls: the name leads to an id, the id to the price, the
stock or the supplier, the supplier to a delivery time.
"""

from __future__ import annotations

import verifiers.v1 as vf

from store_lookup import database


class StoreLookupToolset(vf.Toolset[vf.SharedToolsetConfig]):
    """Four look-ups. A failed one says why, beginning with `error`, so that the next can be better."""

    TOOL_PREFIX = None

    @vf.tool
    def search_products(self, words: str) -> str:
        """Ids and names of products whose name or category has all of these words; eight at most."""
        found = database.search(words)
        if not found:
            return "error: no product has all of these words; try fewer"
        lines = [f"{p['id']}: {p['name']}" for p in found[: database.SHOWN]]
        more = len(found) - len(lines)
        return "\n".join([*lines, f"and {more} more; add a word"] if more else lines)

    @vf.tool
    def get_product(self, product_id: str) -> str:
        """Price in euros, weight in grams, category and supplier id of one product, by an id such as P017."""
        p = database.row("products", product_id)
        if p is None:
            return "error: there is no product with this id; search_products gives ids"
        return (
            f"{p['name']}; category {p['category']}; price {p['price']} euros; "
            f"weight {p['grams']} g; supplier {p['supplier']}"
        )

    @vf.tool
    def get_stock(self, product_id: str) -> str:
        """How many pieces of one product lie in each branch, by the product's id."""
        p = database.row("products", product_id)
        if p is None:
            return "error: there is no product with this id; search_products gives ids"
        return "; ".join(f"{branch}: {pieces}" for branch, pieces in p["stock"].items())

    @vf.tool
    def get_supplier(self, supplier_id: str) -> str:
        """Name, delivery time in days and smallest order in pieces of one supplier, by an id such as S03."""
        s = database.row("suppliers", supplier_id)
        if s is None:
            return "error: there is no supplier with this id; get_product gives it"
        return f"{s['name']}; delivers in {s['days']} days; smallest order {s['smallest']} pieces"


if __name__ == "__main__":
    StoreLookupToolset.run()
