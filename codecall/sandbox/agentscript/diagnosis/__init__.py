"""Why a script failed: the failure report, its hint, and warnings about calls that were not awaited."""
