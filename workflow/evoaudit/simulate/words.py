"""Names, places and things the simulated sites are filled with. All made up."""

FIRST = (
    "Anna",
    "Bruno",
    "Clara",
    "Dmitri",
    "Elif",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Keiko",
    "Liam",
    "Maya",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Samir",
    "Tessa",
    "Umar",
    "Vera",
    "Wout",
    "Yara",
    "Zoe",
)
LAST = (
    "Aalto",
    "Berger",
    "Castro",
    "Dahl",
    "Eriksen",
    "Fontaine",
    "Garcia",
    "Haas",
    "Ivanova",
    "Jansen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Petrov",
    "Quist",
    "Rossi",
    "Sato",
    "Tanaka",
    "Ueda",
    "Varga",
    "Weber",
    "Young",
)
PLACES = (
    "Oslo",
    "Lisbon",
    "Vienna",
    "Prague",
    "Dublin",
    "Helsinki",
    "Athens",
    "Zurich",
    "Porto",
    "Krakow",
    "Bergen",
    "Turin",
    "Ghent",
    "Malmo",
    "Seville",
    "Graz",
    "Riga",
    "Tallinn",
    "Lyon",
    "Bilbao",
)
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")

#: Shop: word group → (categories of (search word, icon, nouns, option label, options), adjectives).
GOODS: dict[str, tuple[tuple[tuple[str, str, tuple[str, ...], str, tuple[str, ...]], ...], tuple[str, ...]]] = {
    "home": (
        (
            ("lamp", "lamp", ("desk lamp", "floor lamp", "reading lamp", "bedside lamp"), "Finish", ("Brass", "Black", "White", "Oak")),
            (
                "chair",
                "chair",
                ("armchair", "dining chair", "office chair", "folding chair"),
                "Fabric",
                ("Linen", "Wool", "Leather", "Cotton"),
            ),
        ),
        ("Walnut", "Nordic", "Studio", "Arc", "Loft", "Orla", "Pine", "Halden"),
    ),
    "fashion": (
        (
            (
                "shirt",
                "shirt",
                ("linen shirt", "flannel shirt", "polo shirt", "work shirt"),
                "Size",
                ("Small", "Medium", "Large", "Extra large"),
            ),
            ("bag", "bag", ("tote bag", "satchel bag", "travel bag", "belt bag"), "Colour", ("Sand", "Forest", "Rust", "Ink")),
        ),
        ("Harper", "Coastal", "Mill", "Bramble", "Everett", "Slate", "Juniper", "Marlow"),
    ),
    "books": (
        (
            ("atlas", "book", ("sea atlas", "star atlas", "city atlas", "bird atlas"), "Format", ("Hardcover", "Paperback", "Large print")),
            (
                "cookbook",
                "book",
                ("bread cookbook", "soup cookbook", "garden cookbook", "spice cookbook"),
                "Format",
                ("Hardcover", "Paperback", "E-book"),
            ),
        ),
        ("Little", "Complete", "Illustrated", "Northern", "Pocket", "Annotated", "Wandering", "Quiet"),
    ),
    "food": (
        (
            ("jam", "jar", ("plum jam", "cherry jam", "quince jam", "fig jam"), "Pack", ("Single", "Pack of 3", "Pack of 6")),
            (
                "coffee",
                "cup",
                ("filter coffee", "espresso coffee", "decaf coffee", "breakfast coffee"),
                "Grind",
                ("Whole bean", "Coarse", "Fine"),
            ),
        ),
        ("Hilltop", "Old Mill", "Sunny", "Orchard", "Harbour", "Meadow", "Granny's", "Village"),
    ),
    "tech": (
        (
            (
                "headphones",
                "headphones",
                ("studio headphones", "travel headphones", "gaming headphones", "kids headphones"),
                "Colour",
                ("Black", "Silver", "Blue"),
            ),
            (
                "phone",
                "phone",
                ("compact phone", "rugged phone", "camera phone", "folding phone"),
                "Storage",
                ("64 GB", "128 GB", "256 GB"),
            ),
        ),
        ("Aero", "Volt", "Pulse", "Quark", "Zenith", "Nova", "Echoless", "Tern"),
    ),
    "garden": (
        (
            (
                "planter",
                "plant",
                ("clay planter", "hanging planter", "window planter", "herb planter"),
                "Size",
                ("Small", "Medium", "Large"),
            ),
            (
                "lantern",
                "lamp",
                ("garden lantern", "solar lantern", "path lantern", "table lantern"),
                "Finish",
                ("Copper", "Zinc", "Black"),
            ),
        ),
        ("Terra", "Willow", "Moss", "Ivy", "Fern", "Cedar", "Stone", "Dew"),
    ),
}

#: Travel: word group → (noun for one journey, icon, carriers, nonstop word, classes).
JOURNEYS: dict[str, tuple[str, str, tuple[str, ...], str, tuple[str, ...]]] = {
    "air": ("flight", "plane", ("Skylark", "Alpen Air", "Nordjet", "Blue Tern", "Iberis"), "Nonstop", ("Economy", "Premium", "Business")),
    "air2": ("flight", "plane", ("Meridian", "Meridian Express", "Solano", "Ostara"), "Nonstop", ("Saver", "Standard", "Flex")),
    "air3": ("flight", "plane", ("Mistral", "Levante", "Bora Air", "Zephyr"), "Nonstop", ("Light", "Classic", "Plus")),
    "rail": ("train", "train", ("Intercity", "Regio", "Nightline", "Swiftrail"), "Direct", ("Second class", "First class", "Sleeper")),
    "sea": (
        "ferry",
        "bag",
        ("Harbour Star", "Polar Queen", "Sound Ferry", "Isle Line"),
        "Direct",
        ("Seat", "Inside cabin", "Sea view cabin"),
    ),
    "road": ("coach", "train", ("Coachwise", "Redline", "Nightowl", "Country Bus"), "Direct", ("Standard", "Comfort", "Sleeper")),
}

#: Forum: word group → (boards, subjects, question stems).
TALK: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "cooking": (
        ("Baking", "Soups", "Gear"),
        ("sourdough starter", "cast iron pan", "miso broth", "pressure cooker", "rye flour", "plum dumplings"),
        ("How do I rescue a {}", "Best way to store a {}", "My {} failed twice", "Show your {}"),
    ),
    "outdoors": (
        ("Routes", "Kit", "Weather"),
        ("ridge walk", "three-season tent", "winter sleeping bag", "coast path", "trail map", "light stove"),
        ("Is this {} right for a beginner", "Long-term report: {}", "Trip notes with a {}", "Looking for a {}"),
    ),
    "games": (
        ("News", "Guides", "Trade"),
        ("ice level boss", "co-op campaign", "retro handheld", "map editor", "speed run", "puzzle dungeon"),
        ("Stuck at the {}", "Patch notes: {}", "Beginner guide to the {}", "Who still plays the {}"),
    ),
    "health": (
        ("Sleep", "Nutrition", "Training"),
        ("shift work sleep", "iron rich diet", "knee exercise", "blood pressure log", "allergy season", "posture break"),
        ("Questions about {}", "What helped me: {}", "Doctor's reading list on {}", "Your routine for {}"),
    ),
    "crafts": (
        ("Wood", "Metal", "Finishes"),
        ("dovetail joint", "hand plane", "oil finish", "bench vice", "band saw", "stool project"),
        ("First {} and what I learned", "Which {} would you buy", "Repairing an old {}", "Plans for a {}"),
    ),
    "family": (
        ("School", "Weekends", "Swap"),
        ("school lunch", "rainy day game", "pushchair", "bedtime story", "picnic spot", "swimming class"),
        ("Ideas for a {}", "Giving away: {}", "Anyone tried this {}", "A small success with our {}"),
    ),
}

#: Tracker: word group → (prefix, noun, components, faults).
ISSUES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "software": (
        "BB",
        "issue",
        ("Parser", "Editor", "Sync", "Login"),
        (
            "Crash on empty file",
            "Cursor jumps in tables",
            "Sync stalls at 99%",
            "Dark mode flickers",
            "Undo loses a paragraph",
            "Login page reloads twice",
            "Search ignores accents",
            "Menu opens off screen",
        ),
    ),
    "desk": (
        "TL",
        "ticket",
        ("Network", "Laptop", "Printing", "Accounts"),
        (
            "VPN drops every hour",
            "Printer asks for a code",
            "New laptop for intern",
            "Shared folder missing",
            "Password reset loop",
            "Meeting room screen dark",
            "Slow start after update",
            "Mail signature wrong",
        ),
    ),
    "council": (
        "FX",
        "report",
        ("Roads", "Lights", "Parks", "Waste"),
        (
            "Pothole on Mill Lane",
            "Street light flickers",
            "Bench broken in park",
            "Bin not emptied",
            "Blocked drain at school",
            "Graffiti under bridge",
            "Loose paving slab",
            "Fallen branch on path",
        ),
    ),
    "firmware": (
        "PW",
        "issue",
        ("Radio", "Boot", "Sensors", "Power"),
        (
            "Radio resets at noon",
            "Boot loop after update",
            "Sensor reads zero",
            "Battery gauge stuck",
            "LED stays amber",
            "Pairing fails twice",
            "Clock drifts overnight",
            "Fan runs at idle",
        ),
    ),
    "ops": (
        "RO",
        "incident",
        ("Database", "Gateway", "Queue", "Storage"),
        (
            "Replica lag over limit",
            "Gateway returns errors",
            "Queue depth rising",
            "Disk nearly full",
            "Backup job skipped",
            "Certificate expires soon",
            "Alert fired twice",
            "Deploy rolled back",
        ),
    ),
    "campus": (
        "CD",
        "request",
        ("Wi-Fi", "Library", "Exams", "Housing"),
        (
            "Wi-Fi weak in hall B",
            "Library card blocked",
            "Exam room too small",
            "Heating off in dorm",
            "Projector has no sound",
            "Timetable shows old room",
            "Locker key lost",
            "Course page empty",
        ),
    ),
}

#: Settings: word group → (noun, page names, switches, lists of (label, options), texts, facts of (label, unit)).
PREFERENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...], tuple[str, str]]] = {
    "desktop": (
        ("General", "Display", "Privacy"),
        ("Night light", "Automatic updates", "Location services", "Screen reader", "Sticky keys", "Game mode"),
        (
            ("Theme", ("Light", "Dark", "Automatic")),
            ("Text size", ("Small", "Normal", "Large")),
            ("Power mode", ("Saver", "Balanced", "Performance")),
        ),
        ("Device name", "Recovery e-mail"),
    ),
    "mail": (
        ("General", "Reading", "Privacy"),
        ("Conversation view", "Undo send", "Read receipts", "Desktop alerts", "Spell check", "Smart folders"),
        (
            ("Density", ("Compact", "Normal", "Roomy")),
            ("Preview lines", ("None", "One", "Three")),
            ("Signature", ("None", "Short", "Full")),
        ),
        ("Sender name", "Reply-to e-mail"),
    ),
    "phone": (
        ("Account", "Plan", "Privacy"),
        ("Paperless bill", "Roaming alerts", "Call waiting", "Spam filter", "Wi-Fi calling", "Data saver"),
        (("Bill day", ("1st", "10th", "20th")), ("Plan", ("Solo", "Duo", "Family")), ("Voicemail", ("Off", "Basic", "Transcribed"))),
        ("Nickname", "Billing e-mail"),
    ),
    "house": (
        ("Rooms", "Climate", "Security"),
        ("Away mode", "Porch light", "Window alerts", "Child lock", "Eco heating", "Night alarm"),
        (("Heating", ("Off", "Comfort", "Eco")), ("Alarm", ("Off", "Home", "Away")), ("Blinds", ("Open", "Half", "Closed"))),
        ("Home name", "Alert e-mail"),
    ),
    "bank": (
        ("Profile", "Cards", "Security"),
        ("Contactless payments", "Online payments", "Payment alerts", "Paper statements", "Travel notice", "Biometric login"),
        (
            ("Statement", ("Monthly", "Quarterly", "Yearly")),
            ("Daily limit", ("$500", "$1,000", "$2,000")),
            ("Language", ("English", "Spanish", "French")),
        ),
        ("Display name", "Contact e-mail"),
    ),
    "video": (
        ("Playback", "Profile", "Parental"),
        ("Autoplay next", "Skip intros", "Kids profile", "Weekly digest", "Surround sound", "Download on Wi-Fi"),
        (
            ("Quality", ("Data saver", "Standard", "Best")),
            ("Subtitles", ("Off", "English", "Spanish")),
            ("Maturity", ("All ages", "Teen", "Adult")),
        ),
        ("Profile name", "Account e-mail"),
    ),
}

#: Sheet: word group → (row names, column names, unit of the cells).
SHEETS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "sales": (("North", "South", "East", "West", "Online", "Export", "Outlet"), ("January", "February", "March", "April"), "$"),
    "ledger": (
        ("Rent", "Salaries", "Travel", "Software", "Energy", "Repairs", "Training"),
        ("Quarter 1", "Quarter 2", "Quarter 3", "Quarter 4"),
        "$",
    ),
    "marks": (("Aalto", "Berger", "Castro", "Dahl", "Eriksen", "Fontaine", "Garcia"), ("Essay", "Lab", "Midterm", "Final"), ""),
    "stock": (("Bolts", "Hinges", "Brackets", "Screws", "Washers", "Rails", "Clips"), ("Aisle 1", "Aisle 2", "Aisle 3", "Aisle 4"), ""),
    "farm": (("Barley", "Oats", "Rye", "Beets", "Clover", "Apples", "Honey"), ("Field A", "Field B", "Field C", "Field D"), ""),
    "clinic": (("Ward 1", "Ward 2", "Ward 3", "Day unit", "X-ray", "Lab", "Pharmacy"), ("Monday", "Tuesday", "Wednesday", "Thursday"), ""),
}
