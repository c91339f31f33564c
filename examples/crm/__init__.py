"""A small CRM as a FastMCP server on a real SQLite file: 25 tools over users, companies, deals, activities and orders.

    python -m examples.crm            serve it over stdio with CodeCall in front
    python -m examples.crm --plain    serve the 25 tools themselves, to compare

`server.py` puts it together, one file a namespace holds the tools, `data.py` makes the rows.
"""
