"""The CRM's SQLite file: created and filled on first use, read and changed through short connections of their own.

Every method opens a connection, does its work and closes it, so that any thread may call it: FastMCP runs `def`
tools in worker threads, and its event loop never waits for the disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from fastmcp.exceptions import ToolError

from examples.crm.data import rows
from examples.crm.models import Group, Page, Row, Summary

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE users (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, role TEXT NOT NULL, team TEXT NOT NULL,
  active INTEGER NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE companies (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, industry TEXT NOT NULL, country TEXT NOT NULL,
  employees INTEGER NOT NULL, owner_id INTEGER NOT NULL REFERENCES users, created_at TEXT NOT NULL);
CREATE TABLE deals (
  id INTEGER PRIMARY KEY, company_id INTEGER NOT NULL REFERENCES companies ON DELETE CASCADE,
  owner_id INTEGER NOT NULL REFERENCES users, title TEXT NOT NULL, stage TEXT NOT NULL, amount INTEGER NOT NULL,
  created_at TEXT NOT NULL, closed_at TEXT);
CREATE TABLE activities (
  id INTEGER PRIMARY KEY, company_id INTEGER NOT NULL REFERENCES companies ON DELETE CASCADE,
  user_id INTEGER NOT NULL REFERENCES users, kind TEXT NOT NULL, subject TEXT NOT NULL, happened_at TEXT NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, company_id INTEGER NOT NULL REFERENCES companies ON DELETE CASCADE, status TEXT NOT NULL,
  total INTEGER NOT NULL, placed_at TEXT NOT NULL);
CREATE INDEX deals_of_company ON deals (company_id);
CREATE INDEX activities_of_company ON activities (company_id);
CREATE INDEX orders_of_company ON orders (company_id);
"""


def refusal(code: str, message: str) -> ToolError:
    """The error a tool raises to say no: JSON, so that a caller can tell kinds apart by `code`."""
    return ToolError(json.dumps({"code": code, "message": message}))


class Database:
    """One CRM database file.

    Raises:
        ValueError: the file exists but is not a CRM database of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._fill_when_new()
        except sqlite3.DatabaseError as failure:
            raise ValueError(f"{path} cannot be used as a CRM database: {failure}") from failure

    def _fill_when_new(self) -> None:
        with self.transaction() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == SCHEMA_VERSION:
                return
            if version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise ValueError(f"{self.path} is not a CRM database of version {SCHEMA_VERSION}; give another path")
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            for table, columns, values in rows():
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """A connection that owns the file for writing: committed at the end, undone when an exception leaves it."""
        with closing(sqlite3.connect(self.path, timeout=5.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    def select(self, sql: str, *values: object) -> list[dict[str, object]]:
        """The rows of one query, by column name."""
        with closing(sqlite3.connect(self.path, timeout=5.0)) as connection:
            cursor = connection.execute(sql, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def get(self, model: type[Row], table: str, row_id: int) -> Row:
        """The row with that id.

        Raises:
            ToolError: NOT_FOUND.
        """
        found = self.select(f"SELECT * FROM {table} WHERE id = ?", row_id)
        if not found:
            raise refusal("NOT_FOUND", f"There is no row {row_id} in {table}")
        return model.model_validate(found[0])

    def page(
        self, model: type[Row], table: str, conditions: Mapping[str, object], *, limit: int, offset: int
    ) -> Page[Row]:
        """One page in the order of ids.

        `conditions` maps SQL with one `?` to its value; those of value None are left out.
        """
        where, values = _where(conditions)
        (total,) = self.select(f"SELECT count(*) AS total FROM {table}{where}", *values)
        chosen = self.select(f"SELECT * FROM {table}{where} ORDER BY id LIMIT ? OFFSET ?", *values, limit, offset)
        count = int(str(total["total"]))
        following = offset + len(chosen)
        return Page[model](
            items=[model.model_validate(row) for row in chosen],
            total=count,
            next_offset=following if chosen and following < count else None,
        )

    def summary(self, by: str, key: str, source: str, amount: str, conditions: Mapping[str, object]) -> Summary:
        """Rows of `source` counted, and `amount` added up, for each value of the SQL expression `key`."""
        where, values = _where(conditions)
        found = self.select(
            f"SELECT CAST({key} AS TEXT) AS key, count(*) AS count, coalesce(sum({amount}), 0) AS amount "
            f"FROM {source}{where} GROUP BY 1 ORDER BY amount DESC, count DESC, key",
            *values,
        )
        return Summary(by=by, groups=[Group.model_validate(row) for row in found])

    def insert(self, table: str, values: Mapping[str, object]) -> int:
        """Add a row and give its id.

        Raises:
            ToolError: CONFLICT, when it repeats a unique value or points to a row that does not exist.
        """
        marks = ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
        with self._conflicts(), self.transaction() as connection:
            return int(connection.execute(sql, tuple(values.values())).lastrowid or 0)

    def update(self, table: str, row_id: int, values: Mapping[str, object]) -> None:
        """Set the given columns; those of value None stay as they are.

        Raises:
            ToolError: NOTHING_TO_CHANGE when no column is given, CONFLICT as for `insert`.
        """
        given = {column: value for column, value in values.items() if value is not None}
        if not given:
            raise refusal("NOTHING_TO_CHANGE", f"Give at least one of: {', '.join(values)}")
        sql = f"UPDATE {table} SET {', '.join(f'{column} = ?' for column in given)} WHERE id = ?"
        with self._conflicts(), self.transaction() as connection:
            connection.execute(sql, (*given.values(), row_id))

    @contextmanager
    def _conflicts(self) -> Generator[None]:
        try:
            yield
        except sqlite3.IntegrityError as failure:
            raise refusal("CONFLICT", f"The row cannot be stored: {failure}") from failure


def _where(conditions: Mapping[str, object]) -> tuple[str, list[object]]:
    on = {sql: value for sql, value in conditions.items() if value is not None}
    return (f" WHERE {' AND '.join(on)}" if on else ""), list(on.values())
