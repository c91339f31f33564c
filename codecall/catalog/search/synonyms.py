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


def _groups(text: str) -> tuple[str, ...]:
    return tuple(" ".join(group.split()) for group in text.split("/"))


ACTIONS: Final = _groups(
    """
    add create new make register insert / show get fetch list retrieve read view display see lookup find search /
    delete remove drop erase clear destroy cancel / update edit change modify set adjust patch rename /
    send post share publish submit deliver / start run launch execute begin trigger invoke /
    stop end terminate halt kill shutdown / find search look lookup query discover locate /
    check verify validate test inspect / calculate compute estimate determine count / convert transform translate /
    compare versus difference contrast / download export save / upload import attach /
    book reserve reservation booking appointment schedule / buy purchase shop shopping order product store /
    sell sale offer deal discount coupon promo / provision create deploy / list enumerate index /
    obtain acquire get retrieve fetch / inspect examine view check / append add attach / assign allocate /
    cancel abort terminate stop / undo revert rollback restore / restore recover / archive store backup /
    duplicate copy clone / clone fork copy / rename move / move transfer relocate migrate /
    merge combine join concatenate / split divide partition / sort order rank arrange / filter narrow /
    tag label mark categorize / lock freeze block / unlock release / enable activate / disable deactivate /
    install setup / uninstall remove / upgrade update / navigate browse goto visit open / click press tap /
    type enter fill input / submit send / scrape crawl extract / parse extract read / capture screenshot snapshot /
    record log save / monitor track watch observe / notify alert notification / subscribe follow /
    unsubscribe unfollow / invite add / approve accept confirm / reject deny decline refuse / approve approval /
    reply respond answer comment / ask question query / answer response / debug troubleshoot diagnose diagnostic /
    fix repair resolve solve / optimize improve enhance / render draw generate / measure calculate /
    predict forecast projection / classify categorize detect / detect recognize identify /
    identify determine recognize / encode encrypt / decode decrypt / compress zip / decompress unzip extract /
    publish release / deploy release rollout / login signin / logout signout / enroll register signup /
    borrow loan lend / rent lease / hire recruit / apply application / donate charity donation nonprofit /
    teach teacher instructor / learn study / listen hear audio / watch view stream / explain describe explanation /
    define definition meaning dictionary / join participate attend / forecast predict outlook / validate lint /
    format prettify / evaluate assess score / simulate simulation model / gather collect /
    aggregate group summarize / count number total / suggest propose
    """
)
"""Groups of verbs: what tools do."""

THINGS: Final = _groups(
    """
    price cost pricing quote fee rate / pay payment invoice billing charge checkout /
    money finance financial invest investment investor fund / stock share equity ticker nasdaq market /
    crypto cryptocurrency bitcoin ethereum blockchain token coin / currency exchange forex usd dollar euro /
    weather forecast temperature rain climate humidity wind / movie film cinema tv show series watch /
    music song track album artist playlist lyric band / video youtube clip movie /
    image picture photo photograph illustration draw drawing painting art / design logo graphic print /
    chart graph plot diagram visualize visualization / document file pdf doc paper /
    note memo notebook remember memory reminder / book novel read reading author literature /
    news headline article press / website web page site url link internet online / email mail inbox message gmail /
    chat message conversation talk sms text / call phone telephone contact dial /
    user person people member account profile customer / team group organization company business enterprise firm /
    employee staff worker hr / job career employment hiring vacancy position resume cv /
    course class lesson learn learning education study teach tutor tutorial student training /
    school university college academic / research paper publication scholar scientific study journal arxiv /
    math equation solve formula algebra calculate / language translate translation grammar vocabulary word /
    write writing essay content copy text paragraph blog / rewrite paraphrase reword polish rephrase /
    summarize summary overview digest abstract / travel trip vacation holiday tour tourism itinerary destination /
    flight airline airport plane fly / hotel accommodation lodging stay room airbnb /
    restaurant food dining eat meal menu cuisine dish / recipe cook cooking ingredient meal diet /
    nutrition diet calorie food health / health medical doctor disease symptom patient medicine drug /
    fitness exercise workout gym training sport / sport game match team football soccer basketball league score /
    game play player gaming puzzle / car vehicle automobile auto drive driving /
    house home property estate apartment housing rent rental /
    map location place address geocode coordinate direction route nearby distance /
    country nation region city town / law legal regulation court lawyer patent / gift present /
    event calendar meeting schedule appointment / date time day clock timezone / task todo ticket issue item /
    project repository repo / code program script programming developer software / database table sql query db /
    server host machine vm instance / security vulnerability threat scan safe risk /
    password secret credential key / error failure bug problem exception / log record history event audit /
    metric statistic analytics measurement performance / report analysis insight analyze review /
    review rating feedback opinion / recommend recommendation suggest suggestion advice tip /
    idea brainstorm creative inspiration / plan strategy planning / goal objective target /
    astrology horoscope zodiac tarot / religion bible prayer god / space planet nasa astronomy star /
    animal pet dog cat / plant garden flower crop farm / child kid baby children /
    clothes clothing apparel fashion wear shirt dress /
    marketing advertising ad advertisement campaign seo promotion / social media twitter facebook instagram post /
    podcast audio episode / voice speech audio speak sound / tv television channel program /
    ship shipping delivery package parcel track tracking / energy power electricity /
    carbon emission climate environment sustainability / tax income salary wage /
    loan mortgage credit debt interest / bank account balance transaction transfer / insurance policy claim /
    hash encrypt encode cipher / random generate generator produce / amount quantity number count total /
    latest recent newest current new / folder directory / row record entry / column field attribute /
    schema structure / key identifier / branch ref / commit revision change / issue bug ticket /
    comment note remark discussion / thread conversation discussion / channel room / inbox mailbox /
    attachment file / spreadsheet excel sheet workbook / slide presentation powerpoint deck / word docx document /
    pdf document / chapter section / heading title header / cell range / picture screenshot image / font typeface /
    color colour palette hex rgb / icon symbol / layout template / component widget element / page screen view /
    tab window / browser chrome web / cookie session / device phone mobile / screen display / battery power /
    disk storage drive volume / memory ram / processor cpu / network internet connection / bandwidth speed /
    latency delay ping / cluster node / container docker pod / image docker / registry repository /
    pipeline workflow job / workflow automation flow / schedule cron / queue topic message / webhook callback /
    endpoint api route / request call / response reply / token credential key / role permission privilege /
    owner author creator / member participant / assignee reviewer / customer client buyer /
    vendor supplier merchant seller / lead prospect contact / subscription plan membership / invoice bill receipt /
    refund return reimbursement / cart basket / discount coupon voucher promo / inventory stock /
    shipment parcel delivery / warehouse storage / wallet balance / portfolio holding asset / dividend earning /
    profit revenue income earnings / expense spending cost budget / budget cost / salary pay wage / debt loan /
    rate percentage / candlestick kline ohlc history / option derivative / gas fuel petrol gasoline diesel /
    airport flight / train railway rail station / bus transit transport / parking garage / taxi cab ride uber /
    traffic congestion / road highway street / route path direction / vacation holiday trip / visa passport /
    beach surf ocean sea / mountain hiking trail / park attraction / museum gallery exhibition /
    concert festival gig event / ticket admission booking / lottery jackpot / bet odds gambling betting /
    poker card / chess checkers / soccer football / player athlete / team club roster squad lineup /
    fixture match schedule / standings table ranking leaderboard / actor actress cast celebrity /
    director filmmaker / anime manga cartoon / comic manga / lyrics song / genre category / broadcast stream live /
    joke humor funny / quote saying quotation / meme gif sticker / verse scripture bible quran / poem poetry /
    story tale fiction / headline news / magazine newspaper press / blog post article / hashtag trend trending /
    trending popular hot top / tweet twitter / reddit post / word vocabulary dictionary thesaurus /
    synonym thesaurus / spelling grammar proofread / essay paper / citation reference bibliography /
    journal paper article / thesis dissertation / degree diploma / exam test quiz / grade score mark /
    homework assignment / curriculum syllabus / flashcard memory / doctor physician /
    drug medicine medication pharmaceutical / illness disease condition / virus covid coronavirus pandemic /
    vaccine vaccination / hospital clinic / gene protein dna / molecule compound chemical / trial study /
    pregnancy birth / weight bmi / sleep rest / meditation mindfulness / therapy counseling / calorie nutrition /
    vegan vegetarian / drink beverage wine beer cocktail / coffee tea / grocery supermarket food /
    earthquake seismic disaster / flood storm hurricane / pollution air quality / sunrise sunset sun / moon lunar /
    tide surf / elevation altitude height / area region zone / zip postal postcode / continent country /
    capital city / state province / border boundary / population demographic census / election vote voting /
    government politics policy / president minister / police crime / court judge / contract agreement /
    trademark patent copyright / license licence permit / regulation compliance rule / privacy gdpr /
    vulnerability cve exploit / malware virus / firewall security / breach leak / spam phishing scam fraud /
    hash checksum / signature sign / captcha verification / proxy vpn / whois domain / hostname host / port socket /
    certificate ssl / algorithm code / function method / class object / variable value / regex pattern expression /
    snippet code / syntax grammar / compiler build / dependency package library / test testing unit /
    coverage test / release version / changelog release / framework library / chart graph / pie bar line /
    diagram flowchart uml mermaid / mindmap map / timeline history / dashboard report / equation formula /
    probability odds / matrix vector / integral derivative calculus / triangle circle geometry /
    average mean median / deviation variance / interest compound / length distance / weight mass / speed velocity /
    temperature celsius fahrenheit / unit measurement / date day calendar / duration period interval /
    deadline due / reminder alarm / alarm alert notification / birthday anniversary / name title / gender sex /
    age birthday / nationality country / zodiac horoscope sign / voice call / caption subtitle transcript /
    transcript transcription / narration speech / accent pronunciation / podcast show / radio station / barcode qr /
    logo brand / avatar profile / wallpaper background / filter effect / resolution quality / thumbnail image /
    ocr text / house property / apartment flat / mortgage loan / furniture decor / kitchen cooking /
    cleaning laundry / repair maintenance / tool instrument / smart home light thermostat / light lamp /
    robot drone / satellite space / asteroid comet / rocket launch / aircraft plane / ship vessel boat /
    bike bicycle / electric ev charging / truck freight shipping / wedding party / toy game / baby child /
    school student / dog pet / breed dog cat / bird animal / fish animal / tree plant / farm agriculture /
    fashion style outfit / makeup beauty cosmetic / jewelry accessory / hair salon / tattoo art / sculpture art /
    photo camera / camera video
    """
)
"""Groups of nouns: what tools are about."""

ABBREVIATIONS: Final = _groups(
    """
    db database / config configuration configure settings setting preference preferences option / repo repository /
    dir directory folder / doc docs documentation document manual /
    auth authentication authenticate login signin credential / authorization authorize permission grant access /
    env environment / param parameter argument / msg message / img image / pic picture /
    info information detail details / stats statistic statistics metric / org organization organisation /
    app application / admin administrator / vm virtual machine / k8s kubernetes cluster / pr pull / mr merge /
    ci pipeline build / url link uri href address / tz timezone / fx forex / geo geographic location /
    lat latitude / lng lon longitude / qty quantity / acct account / addr address / tel telephone phone /
    pwd password passcode / spec specification / temp temperature / max maximum / min minimum / avg average mean /
    lib library package / pkg package / func function / exec execute run / js javascript / ts typescript /
    py python / ui interface / sync synchronize synchronise / ai llm model / tx txn transaction / nft token /
    etf fund / ip address / dns domain nameserver / ssl tls certificate / cpu processor / ram memory /
    gpu graphics / os system / id identifier / num number / ref reference / desc description / ver version
    """
)
"""Short forms of the trade, and what they stand for."""

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


COMMON_WORDS: Final = frozenset(
    word for line in (*ACTIONS, *THINGS, *ABBREVIATIONS) for word in line.split() if len(word) > 2
)
"""Words that names are made of."""

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
    return synonyms_of((*(line.split() for line in (*ACTIONS, *THINGS, *ABBREVIATIONS)), *groups))


def synonyms_of(groups: Iterable[Iterable[str]]) -> Mapping[str, tuple[str, ...]]:
    """Maps each stem to the stems of the other words of its groups, in order."""
    synonyms: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        stems = {stem(word.lower()) for word in group}
        for word in stems:
            synonyms[word] |= stems - {word}
    return {word: tuple(sorted(others)) for word, others in synonyms.items()}
