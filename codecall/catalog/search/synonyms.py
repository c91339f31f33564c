"""Words that stand for each other when people talk about tools, and words that pad a request.

Data, to be read and argued about. A word of a query also finds the other words of its groups, at a lower weight, and
only where the word itself is not (`lexical.py`); the option `embedding.synonyms` adds groups. A word may be in several
groups: they are not joined.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from codecall.catalog.search.analysis import stem

ACTIONS: Final = (
    "add create new make register insert",
    "show get fetch list retrieve read view display see lookup find search",
    "delete remove drop erase clear destroy cancel",
    "update edit change modify set adjust patch rename",
    "send post share publish submit deliver",
    "start run launch execute begin trigger invoke",
    "stop end terminate halt kill shutdown",
    "find search look lookup query discover locate",
    "check verify validate test inspect",
    "calculate compute estimate determine count",
    "convert transform translate",
    "compare versus difference contrast",
    "download export save",
    "upload import attach",
    "book reserve reservation booking appointment schedule",
    "buy purchase shop shopping order product store",
    "sell sale offer deal discount coupon promo",
)
"""Groups of verbs: what tools do."""

THINGS: Final = (
    "price cost pricing quote fee rate",
    "pay payment invoice billing charge checkout",
    "money finance financial invest investment investor fund",
    "stock share equity ticker nasdaq market",
    "crypto cryptocurrency bitcoin ethereum blockchain token coin",
    "currency exchange forex usd dollar euro",
    "weather forecast temperature rain climate humidity wind",
    "movie film cinema tv show series watch",
    "music song track album artist playlist lyric band",
    "video youtube clip movie",
    "image picture photo photograph illustration draw drawing painting art",
    "design logo graphic print",
    "chart graph plot diagram visualize visualization",
    "document file pdf doc paper",
    "note memo notebook remember memory reminder",
    "book novel read reading author literature",
    "news headline article press",
    "website web page site url link internet online",
    "email mail inbox message gmail",
    "chat message conversation talk sms text",
    "call phone telephone contact dial",
    "user person people member account profile customer",
    "team group organization company business enterprise firm",
    "employee staff worker hr",
    "job career employment hiring vacancy position resume cv",
    "course class lesson learn learning education study teach tutor tutorial student training",
    "school university college academic",
    "research paper publication scholar scientific study journal arxiv",
    "math equation solve formula algebra calculate",
    "language translate translation grammar vocabulary word",
    "write writing essay content copy text paragraph blog",
    "rewrite paraphrase reword polish rephrase",
    "summarize summary overview digest abstract",
    "travel trip vacation holiday tour tourism itinerary destination",
    "flight airline airport plane fly",
    "hotel accommodation lodging stay room airbnb",
    "restaurant food dining eat meal menu cuisine dish",
    "recipe cook cooking ingredient meal diet",
    "nutrition diet calorie food health",
    "health medical doctor disease symptom patient medicine drug",
    "fitness exercise workout gym training sport",
    "sport game match team football soccer basketball league score",
    "game play player gaming puzzle",
    "car vehicle automobile auto drive driving",
    "house home property estate apartment housing rent rental",
    "map location place address geocode coordinate direction route nearby distance",
    "country nation region city town",
    "law legal regulation court lawyer patent",
    "gift present",
    "event calendar meeting schedule appointment",
    "date time day clock timezone",
    "task todo ticket issue item",
    "project repository repo",
    "code program script programming developer software",
    "database table sql query db",
    "server host machine vm instance",
    "security vulnerability threat scan safe risk",
    "password secret credential key",
    "error failure bug problem exception",
    "log record history event audit",
    "metric statistic analytics measurement performance",
    "report analysis insight analyze review",
    "review rating feedback opinion",
    "recommend recommendation suggest suggestion advice tip",
    "idea brainstorm creative inspiration",
    "plan strategy planning",
    "goal objective target",
    "astrology horoscope zodiac tarot",
    "religion bible prayer god",
    "space planet nasa astronomy star",
    "animal pet dog cat",
    "plant garden flower crop farm",
    "child kid baby children",
    "clothes clothing apparel fashion wear shirt dress",
    "marketing advertising ad advertisement campaign seo promotion",
    "social media twitter facebook instagram post",
    "podcast audio episode",
    "voice speech audio speak sound",
    "tv television channel program",
    "ship shipping delivery package parcel track tracking",
    "energy power electricity",
    "carbon emission climate environment sustainability",
    "tax income salary wage",
    "loan mortgage credit debt interest",
    "bank account balance transaction transfer",
    "insurance policy claim",
    "hash encrypt encode cipher",
    "random generate generator produce",
    "amount quantity number count total",
    "latest recent newest current new",
)
"""Groups of nouns: what tools are about."""

PHRASES: Final = (
    ("open", r"open (?=(?:an?|another|new)\b)", "create "),
    ("rid", r"get(?:ting)? rid of", "delete"),
    ("", r"what(?:'s| is) the (?=time|date|day)|what (?=(?:time|day|date) is it)", "get current "),
)
"""A word, what it is part of in requests (a regular expression), and what is searched instead, unless a tool's name
has that word: where there is an `open_tab`, to open a tab is not to create one."""

FILLER_WORDS: Final = frozenset(
    stem(word)
    for line in (
        "able accurate affordable also analyze anything app apps assist assistance availability available based",
        "best check choose come compare comprehensive consider considering curious current currently data day days",
        "detail detailed details determine discuss effective effectively efficient ensure ensuring excited explain",
        "explore feel find first get getting give go going good great guidance hello help hey hi high identify",
        "include included includes including info information interest interested interesting keep know last",
        "latest learn let like look looking lot lots love make making many month much need new next now ok one",
        "option options overview particular platform please popular possible potential provide provided provides",
        "providing quality really recent recently recommend recommendation recommendations regarding related",
        "relevant reliable resource resources right say search second see select service services share show",
        "someone something specific specifically suggest suggestions sure take tell thing things think time times",
        "today tool tools top try trying two understand unique use used useful user users using various want way",
        "ways week well year years",
    )
    for word in line.split()
)
"""Stems of words that people put around what they want. They stay in a query, at a lower weight."""


_PHRASES: Final = tuple((word, re.compile(rf"\b(?:{text})", re.IGNORECASE), new) for word, text, new in PHRASES)


def replace_phrases(text: str, is_named: Callable[[str], bool]) -> str:
    """Returns `text` with what stands for each of `PHRASES`.

    Args:
        text: A request.
        is_named: Whether the name of any tool has a word.
    """
    for word, pattern, replacement in _PHRASES:
        if pattern.search(text) and not (word and is_named(word)):
            text = pattern.sub(replacement, text)
    return text


def synonyms_by_stem(groups: Iterable[Iterable[str]] = ()) -> Mapping[str, tuple[str, ...]]:
    """Maps each stem to the stems of the other words of its groups, in order: the tables' groups and `groups`."""
    synonyms: defaultdict[str, set[str]] = defaultdict(set)
    for group in (*(line.split() for line in (*ACTIONS, *THINGS)), *groups):
        stems = {stem(word.lower()) for word in group}
        for word in stems:
            synonyms[word] |= stems - {word}
    return {word: tuple(sorted(others)) for word, others in synonyms.items()}
