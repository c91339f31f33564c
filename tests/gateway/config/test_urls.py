"""URLs of servers: what of them is shown, and which are refused."""

from __future__ import annotations

import pytest

from codecall.gateway.config.urls import explain_url, url_without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https:/user:S3cret@h/mcp", "…"),
        ("http:user:S3cret@h/mcp", "…"),
        ("htps:/user:S3cret@h/mcp", "…"),
        ("https://user:S3/cret@h/mcp", "https://…"),
        ("https://user:Secr?etPass99@h/mcp", "https://…"),
        ("https:///user:S3cret@h", "https://…"),
    ],
)
def test_a_mistyped_url_is_refused_and_nothing_of_it_is_shown(url: str, shown: str):
    assert "http:// or https://" in (explain_url(url) or "")
    assert url_without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h:80/mcp", "https://h:80/mcp"),
        ("HTTP://[::1]:80/mcp", "HTTP://[::1]:80/mcp"),
        ("https://h/@owner/name", "https://h/…"),
        ("https://${HOST}:${PORT:-80}/mcp", "https://${HOST}:${PORT:-80}/mcp"),
        ("https://u:${PASSWORD}@h/mcp", "https://h/mcp"),
        ("${URL}", "${URL}"),
        ("${URL:-https:/user:S3cret@h/mcp}", "…h/mcp}"),
    ],
)
def test_where_a_url_leads_is_shown(url: str, shown: str):
    assert explain_url(url) is None
    assert url_without_secrets(url) == shown


def test_what_is_no_url_of_a_server_is_shown_without_secrets():
    assert url_without_secrets("git+https://user:S3cret@h/x") == "git+https://h/…"
    assert url_without_secrets("/home/me@work/pets.json") == "/home/me@work/pets.json"
