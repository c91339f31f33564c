"""A script that signs in: neither the password nor the token is in the recording."""

import os

import pytest


@pytest.mark.codecall(preset="balanced", recording="recordings/publish_report.json")
def test_publishes(script):
    password = os.environ.get("REPORTS_PASSWORD", "any will do but for recording")
    result = script("publish_report.js").run(context={"user": "desk", "password": password})
    assert result.value == "https://reports.example/weekly-report"
