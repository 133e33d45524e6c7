"""The simulated websites and desktop applications: names, looks and vocabularies."""

from dataclasses import dataclass
from functools import cached_property

from evoaudit.simulate.paint import RGB, mix

WHITE, BLACK = (255, 255, 255), (20, 22, 26)


@dataclass(frozen=True)
class Theme:
    """Colours and layout of one site. ``layout``: 0 brand bar, 1 white bar with tabs, 2 navigation at the side."""

    brand: RGB
    layout: int
    dark: bool = False
    radius: int = 4
    tint: RGB = (247, 248, 250)

    @cached_property
    def ground(self) -> RGB:
        return mix((24, 27, 33), self.brand, 4) if self.dark else self.tint

    @cached_property
    def surface(self) -> RGB:
        return mix((34, 38, 46), self.brand, 4) if self.dark else WHITE

    @cached_property
    def ink(self) -> RGB:
        return (232, 235, 240) if self.dark else (32, 36, 44)

    @cached_property
    def muted(self) -> RGB:
        return (152, 160, 172) if self.dark else (104, 112, 124)

    @cached_property
    def line(self) -> RGB:
        return (66, 72, 84) if self.dark else (216, 220, 227)

    @cached_property
    def soft(self) -> RGB:
        """A pale shade of the brand, for selected things."""
        return mix(self.surface, self.brand, 26 if self.dark else 14)

    @cached_property
    def link(self) -> RGB:
        return mix(self.brand, WHITE, 45) if self.dark else mix(self.brand, BLACK, 10)

    good: RGB = (30, 132, 73)
    bad: RGB = (192, 48, 43)
    warm: RGB = (222, 150, 20)


@dataclass(frozen=True)
class Site:
    """One website or desktop application."""

    name: str
    host: str
    domain: str
    subdomain: str
    app: str
    theme: Theme
    words: str

    def url(self, path: str) -> str:
        """Return the address of a page."""
        return f"https://{self.host}{path}"


def _site(name: str, host: str, domain: str, subdomain: str, app: str, brand: RGB, layout: int, words: str, **look) -> Site:
    return Site(name, host, domain, subdomain, app, Theme(brand, layout, **look), words)


SITES: tuple[Site, ...] = (
    _site("Lumenmart", "www.lumenmart.example", "Shopping", "Lighting", "shop", (28, 92, 168), 0, "home"),
    _site(
        "Oak & Thread",
        "www.oakandthread.example",
        "Shopping",
        "Fashion",
        "shop",
        (122, 68, 46),
        1,
        "fashion",
        tint=(251, 248, 244),
        radius=2,
    ),
    _site("Pagewright", "www.pagewright.example", "Books", "Bookshop", "shop", (38, 92, 74), 0, "books", tint=(249, 248, 243)),
    _site("Greenpail", "shop.greenpail.example", "Food", "Groceries", "shop", (62, 138, 52), 1, "food", radius=8),
    _site("Voltline", "www.voltline.example", "Shopping", "Electronics", "shop", (92, 120, 250), 2, "tech", dark=True, radius=6),
    _site("Fernhouse", "www.fernhouse.example", "Home", "Garden", "shop", (52, 110, 96), 2, "garden", radius=8),
    _site("Skylark Fares", "www.skylarkfares.example", "Travel", "Flights", "travel", (14, 104, 190), 0, "air"),
    _site("Meridian Air", "www.meridianair.example", "Travel", "Airlines", "travel", (150, 30, 52), 1, "air2", radius=2),
    _site("Railhop", "www.railhop.example", "Transport", "Rail", "travel", (206, 86, 20), 0, "rail", radius=6),
    _site("Harbourlink", "www.harbourlink.example", "Transport", "Ferries", "travel", (18, 82, 102), 1, "sea"),
    _site("Coachwise", "www.coachwise.example", "Transport", "Coaches", "travel", (98, 52, 150), 2, "road", radius=8),
    _site("Tramontane", "go.tramontane.example", "Travel", "Flights", "travel", (70, 170, 190), 2, "air3", dark=True),
    _site("Kettle Talk", "forum.kettletalk.example", "Food", "Cooking", "forum", (186, 62, 40), 0, "cooking"),
    _site("Trailhead", "www.trailhead-forum.example", "Sports", "Outdoors", "forum", (60, 112, 58), 1, "outdoors", tint=(246, 248, 243)),
    _site("Pixelbarn", "board.pixelbarn.example", "Entertainment", "Games", "forum", (158, 98, 240), 2, "games", dark=True, radius=6),
    _site("Stethonet", "talk.stethonet.example", "Health", "Medicine", "forum", (0, 118, 128), 1, "health", radius=6),
    _site("Workbench Forum", "www.workbenchforum.example", "Community", "Crafts", "forum", (104, 84, 60), 0, "crafts", radius=2),
    _site("Harbour Parents", "www.harbourparents.example", "Community", "Family", "forum", (200, 70, 120), 2, "family", radius=8),
    _site("Bugbarn", "bugs.bugbarn.example", "Developer", "Bug tracker", "tracker", (44, 62, 92), 0, "software"),
    _site("Ticketloom", "desk.ticketloom.example", "Work", "Service desk", "tracker", (0, 112, 122), 2, "desk", radius=6),
    _site("Fixmyblock", "www.fixmyblock.example", "Government", "Council", "tracker", (0, 94, 60), 1, "council", radius=2),
    _site("Patchwork", "track.patchwork.example", "Developer", "Bug tracker", "tracker", (230, 120, 60), 2, "firmware", dark=True),
    _site("Relayops", "ops.relayops.example", "Work", "Operations", "tracker", (126, 46, 106), 0, "ops", radius=8),
    _site("Campusdesk", "help.campusdesk.example", "Education", "Help desk", "tracker", (34, 78, 156), 1, "campus"),
    _site("Nimbus OS", "settings.nimbus.example", "System", "Desktop", "settings", (48, 104, 196), 2, "desktop", radius=8),
    _site("Mailroost", "mail.mailroost.example", "Productivity", "Mail", "settings", (196, 60, 50), 2, "mail"),
    _site("Chorus Mobile", "my.chorusmobile.example", "Telecom", "Account", "settings", (112, 40, 140), 0, "phone", radius=6),
    _site("Homehub", "app.homehub.example", "Home", "Smart home", "settings", (40, 160, 140), 2, "house", dark=True, radius=8),
    _site("Castle Street Bank", "online.castlestreet.example", "Finance", "Banking", "settings", (18, 58, 88), 1, "bank", radius=2),
    _site("Streamery", "www.streamery.example", "Entertainment", "Video", "settings", (220, 50, 70), 0, "video", dark=True),
    _site("Gridleaf", "docs.gridleaf.example", "Office", "Spreadsheet", "sheet", (24, 124, 70), 0, "sales"),
    _site("Ledgerly", "books.ledgerly.example", "Finance", "Accounting", "sheet", (32, 76, 140), 1, "ledger"),
    _site("Marksheet", "app.marksheet.example", "Education", "Grades", "sheet", (148, 82, 18), 0, "marks", radius=6),
    _site("Stockroom", "wms.stockroom.example", "Logistics", "Inventory", "sheet", (70, 78, 92), 1, "stock"),
    _site(
        "Harvestbook", "farm.harvestbook.example", "Agriculture", "Farm records", "sheet", (108, 122, 30), 0, "farm", tint=(249, 249, 242)
    ),
    _site("Rotaboard", "rota.rotaboard.example", "Health", "Clinic rota", "sheet", (20, 116, 150), 1, "clinic", radius=6),
)

BY_APP: dict[str, tuple[Site, ...]] = {
    app: tuple(s for s in SITES if s.app == app) for app in ("shop", "travel", "forum", "tracker", "settings", "sheet")
}
