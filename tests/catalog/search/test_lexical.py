"""The ranking by words finds the right tool, its scores mean something, and it answers from what the caller sees."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.search.analysis import document_from_entry
from codecall.catalog.search.evidence import absolute_score
from codecall.catalog.search.indexer import Scores
from codecall.catalog.search.lexical import LexicalRanker, LexicalWeights
from codecall.options import SearchOptions
from examples.crm.server import create_crm
from tests.catalog.catalog import CATALOG, tool
from tests.catalog.search.off_topic import OFF_TOPIC
from tests.work import python_steps

THRESHOLD = SearchOptions().similarity_threshold


def ranker_of(entries: Sequence[CatalogEntry], synonyms: Sequence[Sequence[str]] = ()) -> LexicalRanker:
    ranker = LexicalRanker(synonyms=synonyms)
    ranker.add(range(len(entries)), entries)
    return ranker


def ranker_with(weights: LexicalWeights, entries: Sequence[CatalogEntry] = ()) -> LexicalRanker:
    """A ranker of `TWINS`, or of `entries`."""
    ranker = LexicalRanker(weights)
    ranker.add(range(len(entries or TWINS)), entries or TWINS)
    return ranker


def view_of(numbers: Sequence[int]) -> np.ndarray:
    return np.array(numbers, np.int32)


def found(entries: Sequence[CatalogEntry], query: str, ranker: LexicalRanker | None = None) -> list[tuple[str, float]]:
    """Names and scores, best first."""
    scores = (ranker or ranker_of(entries)).scores(view_of(range(len(entries))), query)
    ranked = sorted(zip((e.name for e in entries), scores.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [(name, score) for name, score in ranked if score]


def found_scores(entries: Sequence[CatalogEntry], query: str) -> list[float]:
    return ranker_of(entries).scores(view_of(range(len(entries))), query).tolist()


def names(entries: Sequence[CatalogEntry], query: str) -> list[str]:
    return [name for name, _ in found(entries, query)]


RANKER = ranker_of(CATALOG)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("list users", "users:list"),
        ("get user profile information", "users:getProfile"),
        ("delete an order", "orders:delete"),
        ("please could you show me the commit history?", "git_log"),
        ("what is the weather in Paris", "weather_forecast"),
        ("searching for a company", "companies:search"),
        ("schedule a meeting", "calendar:createEvent"),
        ("move deal to next stage", "deals:moveStage"),
        ("refund a customer's order", "orders:refund"),
        ("users.list", "users:list"),
        ("usersList", "users:list"),
        ("USERS LIST", "users:list"),
        ("customer_id", "orders:create"),
        ("invite a colleague by email", "users:invite"),
        ("who am I", "who_am_i"),
    ],
)
def test_a_plain_request_finds_its_tool_well_above_the_default_threshold(query: str, name: str) -> None:
    best, score = found(CATALOG, query, RANKER)[0]

    assert best == name
    assert score > THRESHOLD + 0.1


@pytest.mark.parametrize(
    ("query", "name"),
    [("delte ordr", "orders:delete"), ("comit histroy", "git_log"), ("wheather forcast", "weather_forecast")],
)
def test_typing_errors_are_forgiven(query: str, name: str) -> None:
    best, score = found(CATALOG, query, RANKER)[0]

    assert best == name
    assert score > THRESHOLD


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("what fails", "ci_failure"),
        ("deploy", "run_deployment"),
        ("transformation", "transform"),
        ("usage", "resources_used"),
        ("retrieval", "retrieve"),
    ],
)
def test_words_of_one_family_stand_for_each_other(query: str, name: str) -> None:
    others = ("ci_failure", "run_deployment", "transform", "resources_used", "retrieve", "faint", "depot", "retry")

    assert names([tool(each, "") for each in others], query)[0] == name


NOISE = [tool(f"list_{word}", f"List {word} of GitHub") for word in ("gists", "tissues", "releases", "users", "forks")]


@pytest.mark.parametrize("query", ["lsit github isues", "githbu issuse", "the gitbub issuess"])
def test_a_mistyped_word_is_searched_as_the_word_it_stands_for(query: str) -> None:
    entries = [*NOISE, tool("bugs", "Everything known about issues: one page of them, by state and label")]

    assert names(entries, query)[0] == names(entries, "list github issues")[0] == "bugs"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("show the forms", "show_forms"),  # a known word stays, near as another may be
        ("xissues yissues", "bugs"),
    ],
)
def test_only_unknown_words_are_corrected(query: str, name: str) -> None:
    entries = [*NOISE, tool("show_forms", "Show form"), tool("show_form_s", "forums forums"), tool("bugs", "issues")]

    assert names(entries, query)[0] == name


def test_words_of_tools_that_the_caller_does_not_see_correct_nothing() -> None:
    entries = [tool("a_walrus", "Count walrus"), tool("b", "Count falrus")]
    ranker = ranker_of([*entries, tool("hidden", "walrush walrush walrusa"), tool("more", "walrusa")])

    assert ranker.scores(view_of([0, 1]), "walruss").tolist() == found_scores(entries, "walruss")
    ranker.remove([2, 3])
    assert ranker.scores(view_of([0, 1]), "falrusz").tolist() == found_scores(entries, "falrusz")


SMALL_TALK = (
    "sing me a lullaby",
    "lorem ipsum dolor sit amet",
    "zzqx",
    "good morning everybody",
    "tell me a joke",
    "what is the meaning of life",
    "bake a chocolate cake",
    "my back hurts when it rains",
    "do you like spaghetti",
    "once upon a midnight dreary",
)


def test_most_small_talk_stays_below_the_default_threshold() -> None:
    silent = [query for query in SMALL_TALK if all(score < THRESHOLD for _, score in found(CATALOG, query, RANKER))]

    assert len(silent) >= 8, silent


@pytest.fixture(scope="module")
def crm(tmp_path_factory: pytest.TempPathFactory) -> list[CatalogEntry]:
    """The tools of the example."""
    server = create_crm(tmp_path_factory.mktemp("crm") / "crm.sqlite3")
    tools = anyio.run(server.list_tools)
    return [
        CatalogEntry(each.name, each.name.split("_")[0], each.description or "", each.parameters, title=each.title)
        for each in tools
    ]


def test_scores_of_the_example_tell_requests_from_small_talk(crm: list[CatalogEntry]) -> None:
    ranker = ranker_of(crm)
    requests = {
        "list users": "users_list",
        "get a company by id": "companies_get",
        "move a deal to another stage": "deals_move",
        "forecast revenue": "orders_forecast",
        "log a call with a customer": "activities_log",
        "cancel an order": "orders_cancel",
        "remove a company": "companies_delete",
    }
    best = {query: found(crm, query, ranker)[0] for query in requests}

    assert {query: name for query, (name, _) in best.items()} == requests
    assert min(score for _, score in best.values()) > THRESHOLD + 0.1
    talk = [max((score for _, score in found(crm, query, ranker)), default=0) for query in SMALL_TALK]
    assert sum(score < THRESHOLD for score in talk) >= 8, talk


@pytest.mark.parametrize("query", ["", "  ", "?!", "…", "\x00", "🦑"])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert found(CATALOG, query, RANKER) == []


@pytest.mark.parametrize("query", ["the", "which of these will do it", "and then, and then"])
def test_filler_alone_is_looked_for_as_it_stands(query: str) -> None:
    assert len(RANKER.scores(view_of(range(len(CATALOG))), query)) == len(CATALOG)


def test_the_name_counts_more_than_the_description() -> None:
    entries = (
        tool("reports:export", "Write invoices as a file"),
        tool("invoices:export", "Write a file"),
        tool("notes:add", "Add"),
    )

    assert names(entries, "export invoices")[:2] == ["invoices:export", "reports:export"]


@pytest.mark.parametrize(
    "field",
    [
        {"title": "Kumquat"},
        {"description": "the kumquat"},
        {"app_id": "kumquat"},
        {"tags": frozenset({"kumquat"})},
        {"input_schema": {"properties": {"kumquatId": {}}}},
        {"input_schema": {"properties": {"x": {"description": "a kumquat"}}}},
        {"input_schema": {"properties": {"x": {"enum": ["pear", "kumquat"]}}}},
        {"input_schema": {"properties": {"x": {"type": "array", "items": {"properties": {"kumquat": {}}}}}}},
        {"examples": (Example("peel a kumquat", "return 1"),)},
    ],
)
def test_every_field_is_searched(field: dict[str, object]) -> None:
    plain: dict[str, object] = {"name": "x:y", "app_id": "a", "description": "", "input_schema": {}}
    entry = CatalogEntry(**(plain | field))  # type: ignore[arg-type]

    assert names((*CATALOG, entry), "kumquat") == ["x:y"]


def test_a_synonym_finds_but_never_above_the_word_itself() -> None:
    entries = [
        tool("a:remove", "Remove a thing"),
        tool("b:delete", "Delete a thing"),
        tool("c:drop", "Drop a thing"),
        tool("d:paint", "Paint a thing"),
        tool("e:wash", "Wash a thing"),
    ]
    for query, own in (("delete", "b:delete"), ("remove", "a:remove"), ("drop", "c:drop")):
        hits = found(entries, query)
        assert hits[0][0] == own
        assert {name for name, _ in hits} == {"a:remove", "b:delete", "c:drop"}
        assert hits[1][1] < hits[0][1]


def test_groups_of_ones_own_are_synonyms_too() -> None:
    entries = [*CATALOG, tool("kb:lookup", "Find an article in the Frobnicator"), tool("x:y", "Other")]

    assert "kb:lookup" not in names(entries, "quiz")
    ranker = ranker_of(entries, [["Quiz", "frobnicator"]])
    assert found(entries, "quiz", ranker)[0][0] == "kb:lookup"


def test_padding_decides_nothing() -> None:
    bare = names(CATALOG, "refund order")
    padded = names(CATALOG, "hello, please help me, I really need the best way to refund an order today")

    assert bare[0] == padded[0] == "orders:refund"


def test_each_of_several_intentions_is_found() -> None:
    request = (
        "Show me the commit history of the main branch. Then check the weather forecast for Oslo, "
        "and then invite a colleague by e-mail, and delete the order from yesterday."
    )

    assert set(names(CATALOG, request)[:5]) >= {"git_log", "weather_forecast", "users:invite", "orders:delete"}


INVOICES = [
    *(tool(f"billing{n}:sendInvoice", "Send an invoice to a customer") for n in range(4)),
    tool("weather:daily", "The rain of one day"),
    tool("hr:absence", "The holiday of an employee"),
    tool("text:fill", "Fill a template with values, one for each of its fields"),
]
SEVERAL_THINGS = "Send an invoice to my best customer. What is the rain in Oslo? Enter a holiday for Kari."


def asked(entries: Sequence[CatalogEntry], query: str, view: Sequence[int]) -> dict[str, float]:
    ranker = ranker_of(entries)
    scores = ranker.prefer_intended(view_of(view), query, ranker.scores(view_of(view), query))
    return {entries[n].name: score for n, score in zip(view, scores.tolist(), strict=True)}


def test_many_tools_for_one_thing_leave_room_for_those_for_the_others() -> None:
    entries = [*INVOICES, tool("billing:printInvoice", "Print an invoice of a customer")]
    plain = dict(found(entries, SEVERAL_THINGS))
    scores = asked(entries, SEVERAL_THINGS, range(len(entries)))
    best = max(plain.values())

    assert scores["billing0:sendInvoice"] == pytest.approx(best), "none is better"
    assert scores["billing:printInvoice"] < 0.95 * plain["billing:printInvoice"], "others have all it has"
    assert scores["weather:daily"] == pytest.approx(plain["weather:daily"])
    assert scores["hr:absence"] == pytest.approx(plain["hr:absence"])


def test_one_thing_told_in_two_sentences_lowers_no_tool() -> None:
    query = "Send an invoice to my best customer. It is for the rain coats of May."

    lowered = {name: score for name, score in asked(INVOICES, query, range(len(INVOICES))).items() if score}
    assert lowered == pytest.approx(dict(found(INVOICES, query)))


def test_the_order_of_a_view_changes_no_score_of_a_request_for_several_things() -> None:
    many = [*INVOICES, *(tool(f"a{n}:sendInvoice", "Send an invoice to a customer") for n in range(150))]

    assert asked(many, SEVERAL_THINGS, range(len(many))) == asked(many, SEVERAL_THINGS, range(len(many))[::-1])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Rechnungen für Kunden löschen", "Rechnung löschen"),
        ("Créer une facture pour un employé", "facture employé"),
        ("使用必应搜索指定的关键词", "搜索关键词"),
        ("顧客を検索する", "顧客検索"),
        ("ค้นหาข้อมูลลูกค้า", "ลูกค้า"),
        ("ग्राहक खोजें", "ग्राहक"),
        ("Найти клиентов по имени", "клиентов"),
        ("Open ticket 4711 of ISO 27001", "27001"),
    ],
)
def test_texts_of_any_alphabet_are_found(text: str, query: str) -> None:
    best, score = found((*CATALOG, tool("x:y", text)), query)[0]

    assert best == "x:y"
    assert score > THRESHOLD


def test_identifiers_are_found_by_the_words_in_them() -> None:
    entries = [*CATALOG, tool("getGitHubPullRequest", ""), tool("HTTPServerRestart", "")]

    assert names(entries, "github pull request")[0] == "getGitHubPullRequest"
    assert names(entries, "restart the http server")[0] == "HTTPServerRestart"


def test_a_query_of_a_thousand_characters_is_little_work() -> None:
    long = ("please list all the users of every company and then delete orders. " * 20)[:1_000]

    assert {"users:list", "orders:delete"} <= set(names(CATALOG, long)[:5])
    assert python_steps(lambda: names(CATALOG, long)) < 100_000


def crowd(count: int) -> list[CatalogEntry]:
    """Tools about other things than those of `CATALOG`."""
    things = ["boiler", "lamp", "fence", "lawn", "roof", "gutter", "carpet", "kettle", "bicycle", "sofa", "curtain"]
    deeds = ["paint", "mend", "polish", "varnish", "lift", "scrub", "tighten", "sharpen"]
    return [
        tool(f"house:{deed}{thing.title()}{n}", f"{deed.title()} the {thing} in room {n}", "house")
        for n in range(-(-count // (len(things) * len(deeds))))
        for thing in things
        for deed in deeds
    ][:count]


def test_a_score_means_the_same_in_a_small_and_in_a_large_catalog() -> None:
    small = CATALOG[:10]
    large = [*small, *crowd(2_990)]
    ranker = ranker_of(large)

    for query in ("list users", "delete an order", "invite a colleague by email", "refund order", "move the deal"):
        (name, score), (name_in_large, score_in_large) = found(small, query)[0], found(large, query, ranker)[0]
        assert name == name_in_large
        assert score == pytest.approx(score_in_large, abs=0.1)


@pytest.mark.parametrize("entries", [(), (tool("…", ""),), (tool("only:one", "The only tool there is"),)])
def test_tiny_catalogs_can_be_searched(entries: tuple[CatalogEntry, ...]) -> None:
    assert names(entries, "only tool") == [e.name for e in entries if "only" in e.name]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_query_gives_scores_from_0_to_1(query: str) -> None:
    scores = RANKER.scores(view_of(range(len(CATALOG))), query)

    assert scores.shape == (len(CATALOG),)
    assert ((scores >= 0) & (scores <= 1)).all()


@settings(deadline=None)
@given(
    st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(0, 500), st.integers(0, 5000), st.integers(1, 500)
)
def test_the_fit_is_a_share_and_more_of_anything_is_no_less(
    covered: float, likeness: float, name: float, hits: int, length: int, words: int
) -> None:
    def fit(*evidence: float) -> float:
        return float(absolute_score(*(np.array([each]) for each in evidence), words=words)[0])  # type: ignore[arg-type]

    assert 0 <= fit(0, 0, 0, 0, length) <= fit(covered, likeness, name, hits, length) <= fit(1, 1, 1, hits, length) <= 1
    assert fit(covered, likeness, name, hits, length) >= fit(covered, likeness, name, hits, length + 1)


def test_the_same_words_say_more_of_a_tool_of_one_line_than_of_one_that_says_a_lot() -> None:
    filler = " ".join(f"remark{number} aside{number}" for number in range(60))
    short, long = tool("trips", "Plans a visit to a museum"), tool("trips", f"Plans a visit to a museum. {filler}")
    others = [tool(f"other_{number}", f"Something else {number}") for number in range(20)]

    fits = [
        max(scores_alone([each, *others], "which museum could my parents visit on Sunday")) for each in (short, long)
    ]

    assert fits[0] > THRESHOLD
    assert fits[0] > 1.3 * fits[1]


WORDS = st.sampled_from(
    ["user", "order", "list", "delete", "remove", "invoice", "refund", "report", "of", "a", "getUser", "搜索网页", "x1"]
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
ENTRIES = st.builds(
    lambda name, app, description, parameter: tool("_".join(name), description, app, **{parameter: {"enum": ["list"]}}),
    st.lists(WORDS, min_size=1, max_size=3),
    st.sampled_from(["crm", "shop"]),
    TEXTS,
    WORDS,
)


def scores_alone(entries: Sequence[CatalogEntry], query: str) -> Scores:
    """Those of a ranker that has never seen anything else."""
    return ranker_of(entries).scores(view_of(range(len(entries))), query)


@settings(max_examples=15, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=12), TEXTS, st.integers(0, 2**32))
def test_what_a_caller_does_not_see_changes_nothing(entries: list[CatalogEntry], query: str, seed: int) -> None:
    chance = random.Random(seed)
    others = [*crowd(40), *(tool(f"list_{n}", "Delete the order of a user, refund the invoice") for n in range(60))]
    everything = [*entries, *others]
    numbers = list(range(len(everything)))
    chance.shuffle(numbers)
    ranker = LexicalRanker()
    pairs = list(zip(numbers, everything, strict=True))
    chance.shuffle(pairs)
    while pairs:
        batch = [pairs.pop() for _ in range(min(len(pairs), chance.choice([1, 17, 80])))]
        ranker.add([number for number, _ in batch], [entry for _, entry in batch])
    alone = scores_alone(entries, query)

    # To the last digit: rounding must not tell either.
    assert ranker.scores(view_of(numbers[: len(entries)]), query).tolist() == alone.tolist()

    ranker.remove(numbers[len(entries) :: 2])
    assert ranker.scores(view_of(numbers[: len(entries)]), query).tolist() == alone.tolist()

    again = numbers[len(entries) :: 2][:10]
    ranker.add(again, [tool(f"order_{n}", "List and delete") for n in again])
    assert ranker.scores(view_of(numbers[: len(entries)]), query).tolist() == alone.tolist()


@settings(max_examples=25, deadline=None)
@given(st.lists(ENTRIES, min_size=2, max_size=12), TEXTS, st.integers(0, 2**32))
def test_the_order_of_what_a_caller_sees_changes_nothing(entries: list[CatalogEntry], query: str, seed: int) -> None:
    chance = random.Random(seed)
    order = list(range(len(entries)))
    chance.shuffle(order)
    ranker = ranker_of(entries)
    straight = ranker.scores(view_of(range(len(entries))), query)

    assert ranker.scores(view_of(order), query).tolist() == straight[order].tolist()
    assert scores_alone([entries[n] for n in order], query).tolist() == straight[order].tolist()


def test_the_lengths_of_long_texts_add_up_the_same_in_any_order() -> None:
    chance = random.Random(7)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    entries = [
        tool(f"t{n}", " ".join(chance.choices(words, k=chance.randint(1, 400))), p={"enum": chance.choices(words, k=7)})
        for n in range(300)
    ]
    order = list(range(len(entries)))
    ranker = ranker_of(entries)
    straight = ranker.scores(view_of(order), "alpha theta")
    for _ in range(5):
        chance.shuffle(order)
        assert ranker.scores(view_of(order), "alpha theta").tolist() == straight[order].tolist()


@pytest.mark.parametrize("others", [0, 300, 3_000])
def test_scores_show_that_nothing_fits(others: int) -> None:
    entries = [*CATALOG, *crowd(others)]
    ranker = ranker_of(entries)
    scores = [best[0][1] if (best := found(entries, sentence, ranker)) else 0 for sentence in OFF_TOPIC]

    assert len(OFF_TOPIC) == len(set(OFF_TOPIC)) == 60
    assert sum(score < 0.35 for score in scores) >= 54
    requests = ("list users", "refund an order", "who am I", "commit history", "weather", "invite", "polish the lamp")
    for request in requests[: None if others else -1]:
        assert found(entries, request, ranker)[0][1] > THRESHOLD + 0.1, request


def test_one_word_that_is_there_by_chance_is_less_than_all_words_of_a_short_request() -> None:
    chance = found(CATALOG, "the weather was lovely while grandmother knitted socks", RANKER)[0]

    assert chance[0] == "weather_forecast"
    assert chance[1] < found(CATALOG, "weather", RANKER)[0][1]


def test_a_number_says_less_than_a_word() -> None:
    entries = [
        tool("first", "Of 15"),
        tool("second", "The totals of all the sales that were made here in summer, by shop and by person"),
        tool("other", "Something else"),
    ]

    assert names(entries, "sales of 15") == ["second", "first"]


def test_a_task_told_at_length_shows_its_tool() -> None:
    told = (
        "Our espresso machine broke again, guests complained the whole morning, the plumber never came, and now "
        "somebody insists on a refund for breakfast, which the barista thinks fair"
    )

    [(name, score), *_] = found(CATALOG, told)

    assert name == "orders:refund"
    assert score > 0.5


def test_names_without_separators_are_taken_apart_into_words_that_are_known() -> None:
    entries = [
        tool("getchannelinfo", ""),
        tool("realtorpropertylist", "All a realtor has"),
        tool("getcategoryinfo", ""),
        tool("xylophonetuner", ""),
    ]

    assert names(entries, "channel information")[0] == "getchannelinfo"
    assert names(entries, "properties of the realtor")[0] == "realtorpropertylist"
    assert names(entries, "xylophone")[0] == "xylophonetuner"  # by its n-grams


def test_a_word_that_many_names_have_says_little_of_a_name() -> None:
    entries = [
        *(tool(f"{word}_tool", "") for word in ("gift", "chart", "course", "tarot")),
        tool("gift_paper_tool", ""),
    ]

    assert names(entries, "gift tool")[:2] == ["gift_tool", "gift_paper_tool"]
    best, other = (dict(found(entries, "gift"))[name] for name in ("gift_tool", "gift_paper_tool"))
    assert best > other


def test_the_name_of_the_app_is_no_part_of_what_a_tool_is_called() -> None:
    plain = [tool("issue", "", "github"), tool("pull", "", "github")]
    named = [tool("github_issue", "", "github"), tool("github_pull", "", "github")]

    assert document_from_entry(named[0]).name_words == document_from_entry(plain[0]).name_words == {"issu"}
    assert document_from_entry(tool("github", "", "github")).name_words == {"github"}


def test_a_tool_that_says_little_is_found_with_the_others_of_its_app() -> None:
    entries = [
        tool("arrivals", "New films on all platforms", "cinema"),
        tool("b_info", "Details", "cinema"),
        tool("a_info", "Details", "trains"),
        tool("c_info", "Details", ""),
    ]

    assert names(entries, "new films, and their details")[:2] == ["arrivals", "b_info"]


TWINS = (
    tool("a_issues", "Issues", "garden"),
    tool("a_rake", "Rake leaves", "garden"),
    tool("b_issues", "Issues", "forge"),
    tool("b_branch", "Branches of a repository", "forge"),
)
"""The same tool in two apps, of which one has another tool about repositories."""


@pytest.mark.parametrize("query", ["issues of a repository", "What is the weather? Show issues of a repository."])
def test_the_app_that_has_the_words_that_a_tool_lacks_raises_it(query: str) -> None:
    plain, raised = (
        dict(found(TWINS, query, ranker_with(LexicalWeights(siblings=0, app_words=weight)))) for weight in (0, 0.3)
    )

    assert plain["b_issues"] <= plain["a_issues"]
    assert raised["b_issues"] > raised["a_issues"]


@pytest.mark.parametrize("app", ["", "one"])
def test_where_there_is_one_app_it_raises_nothing(app: str) -> None:
    entries = [replace(entry, app_id=app) for entry in CATALOG]
    plain, raised = (
        found(entries, "refund a customer's order", ranker_with(LexicalWeights(app_words=weight), entries))
        for weight in (0, 0.3)
    )

    assert raised == plain


@pytest.mark.parametrize(("short", "long"), [("db", "database"), ("repo", "repository"), ("config", "settings")])
def test_short_forms_of_the_trade_stand_for_what_they_mean(short: str, long: str) -> None:
    assert names([*CATALOG, tool(f"x_{long}", "")], short)[0] == f"x_{long}"
    assert names([*CATALOG, tool(f"x_{short}", "")], long)[0] == f"x_{short}"
