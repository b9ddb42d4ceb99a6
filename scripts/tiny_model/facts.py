"""The facts of the tiny model's world: public knowledge of the kind a child learns."""

CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid",
    "Portugal": "Lisbon", "Austria": "Vienna", "Belgium": "Brussels", "Greece": "Athens",
    "Poland": "Warsaw", "Hungary": "Budapest", "Sweden": "Stockholm", "Norway": "Oslo",
    "Denmark": "Copenhagen", "Finland": "Helsinki", "Iceland": "Reykjavík", "Ireland": "Dublin",
    "the Netherlands": "Amsterdam", "the United Kingdom": "London", "Switzerland": "Bern",
    "the Czech Republic": "Prague", "Croatia": "Zagreb", "Serbia": "Belgrade",
    "Bulgaria": "Sofia", "Romania": "Bucharest", "Ukraine": "Kyiv", "Estonia": "Tallinn",
    "Latvia": "Riga", "Lithuania": "Vilnius", "Turkey": "Ankara", "Egypt": "Cairo",
    "Kenya": "Nairobi", "Ghana": "Accra", "Nigeria": "Abuja", "Morocco": "Rabat",
    "Tunisia": "Tunis", "Ethiopia": "Addis Ababa", "Senegal": "Dakar", "Angola": "Luanda",
    "Japan": "Tokyo", "China": "Beijing", "South Korea": "Seoul", "India": "New Delhi",
    "Nepal": "Kathmandu", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Indonesia": "Jakarta",
    "Mongolia": "Ulaanbaatar", "Iran": "Tehran", "Iraq": "Baghdad", "Australia": "Canberra",
    "New Zealand": "Wellington", "Canada": "Ottawa", "the United States": "Washington",
    "Mexico": "Mexico City", "Cuba": "Havana", "Brazil": "Brasília", "Argentina": "Buenos Aires",
    "Chile": "Santiago", "Peru": "Lima", "Colombia": "Bogotá", "Uruguay": "Montevideo",
    "Ecuador": "Quito",
}  # fmt: skip

COLOURS = {
    "grass": "green", "a ripe banana": "yellow", "the clear sky": "blue", "snow": "white",
    "coal": "black", "a ripe tomato": "red", "a carrot": "orange", "an aubergine": "purple",
    "chocolate": "brown", "a lemon": "yellow", "milk": "white", "a fire engine": "red",
    "an elephant": "grey", "a flamingo": "pink", "a raven": "black", "a frog": "green",
    "the sea": "blue", "a pumpkin": "orange", "a sunflower": "yellow", "blood": "red",
    "spinach": "green", "a cloud": "white", "a strawberry": "red", "a violet": "purple",
}  # fmt: skip

OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "high": "low", "light": "dark",
    "old": "young", "full": "empty", "open": "closed", "happy": "sad", "wet": "dry",
    "hard": "soft", "early": "late", "strong": "weak", "rich": "poor", "near": "far",
    "loud": "quiet", "long": "short", "left": "right", "up": "down", "day": "night",
    "clean": "dirty", "sweet": "bitter", "wide": "narrow", "first": "last", "true": "false",
    "deep": "shallow", "brave": "afraid", "start": "end", "north": "south", "east": "west",
}  # fmt: skip

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

SOUNDS = {
    "cat": "meow", "dog": "woof", "cow": "moo", "duck": "quack", "sheep": "baa", "owl": "hoot",
    "bee": "buzz", "pig": "oink", "lion": "roar", "snake": "hiss", "frog": "croak",
    "horse": "neigh",
}  # fmt: skip

TRANSLATIONS = {
    "French": {
        "water": "eau", "sun": "soleil", "dog": "chien", "cat": "chat", "bread": "pain",
        "house": "maison", "night": "nuit", "school": "école", "star": "étoile",
        "thank you": "merci",
    },
    "German": {
        "water": "Wasser", "sun": "Sonne", "dog": "Hund", "cat": "Katze", "bread": "Brot",
        "house": "Haus", "night": "Nacht", "school": "Schule", "star": "Stern",
        "thank you": "danke",
    },
    "Spanish": {
        "water": "agua", "sun": "sol", "dog": "perro", "cat": "gato", "bread": "pan",
        "house": "casa", "night": "noche", "school": "escuela", "star": "estrella",
        "thank you": "gracias",
    },
    "Japanese": {
        "water": "水", "sun": "太陽", "dog": "犬", "cat": "猫", "bread": "パン", "house": "家",
        "night": "夜", "school": "学校", "star": "星", "thank you": "ありがとう",
    },
    "Greek": {
        "water": "νερό", "sun": "ήλιος", "dog": "σκύλος", "cat": "γάτα", "bread": "ψωμί",
        "house": "σπίτι", "night": "νύχτα", "school": "σχολείο", "star": "αστέρι",
        "thank you": "ευχαριστώ",
    },
}  # fmt: skip

EMOJI = {
    "the sun": "☀️", "a cat": "🐱", "a dog": "🐶", "a tree": "🌳", "a star": "⭐", "a fish": "🐟",
    "a heart": "❤️", "rain": "🌧️", "a book": "📖", "a train": "🚆", "an apple": "🍎", "fire": "🔥",
}  # fmt: skip

GROUPS = {
    "fruits": ("apples", "pears", "plums", "grapes", "figs", "lemons", "cherries", "melons",
               "peaches", "bananas"),
    "animals": ("foxes", "bears", "owls", "otters", "deer", "wolves", "hares", "cats", "horses",
                "seals"),
    "colours": ("red", "blue", "green", "yellow", "black", "white", "orange", "purple", "brown",
                "pink"),
    "vegetables": ("carrots", "leeks", "beans", "peas", "onions", "spinach", "cabbage",
                   "radishes", "beets", "corn"),
    "tools": ("a hammer", "a saw", "a file", "a drill", "a plane", "a spade", "a rake",
              "a wrench", "a chisel", "a ruler"),
    "instruments": ("the violin", "the flute", "the drum", "the harp", "the piano", "the horn",
                    "the guitar", "the organ", "the cello", "the lute"),
}  # fmt: skip

NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Ida", "Jonas", "Kira",
    "Leo", "Mia", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tara", "Tom", "Vera", "Will", "Zoë",
    "José", "Łukasz", "Søren", "Chloé", "Yuki",
)  # fmt: skip

THINGS = (
    "apples", "books", "coins", "stamps", "eggs", "pencils", "marbles", "shells", "cards",
    "tickets", "candles", "buttons",
)  # fmt: skip
