"""Writes theatre.csv and cabin-a320.csv beside itself. The files are committed; run this after changing a plan.

x and y are in hundredths of a seat's width, y growing away from the stage (or from the nose), so that a map can
be drawn without knowing what it shows. Prices are in the minor unit of the event's currency.
"""

import csv
import json
import math
import pathlib

HERE = pathlib.Path(__file__).parent
HEADER = ["seat_id", "section", "row", "number", "type", "price", "x", "y", "attributes"]
# No I and O: they read as 1 and 0 on a ticket.
ROW_NAMES = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def write(name, seats):
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(seats)


# --- theatre: curved rows around a stage at (0, 0) ------------------------------------------------------------

# section, rows, seats in the first and in the last row, radius of the first row, prices from front to back
THEATRE = [
    ("stalls", 20, 24, 36, 1400, [9500, 8500, 7000, 5500]),
    ("circle", 8, 38, 42, 3800, [7500, 6000, 4500]),
    ("balcony", 6, 40, 44, 4900, [3500, 2500]),
]
ROW_DEPTH = 110
WHEELCHAIR_ROWS = {("stalls", 19), ("circle", 0)}  # where a lift leads


def theatre():
    for section, rows, first, last, radius, prices in THEATRE:
        for row in range(rows):
            yield from theatre_row(section, rows, row, first, last, radius + row * ROW_DEPTH, prices)


def theatre_row(section, rows, row, first, last, radius, prices):
    count = first + round((last - first) * row / (rows - 1))
    price = prices[row * len(prices) // rows]
    for number in range(1, count + 1):
        angle = (number - (count + 1) / 2) * 100 / radius
        at_end = number <= 2 or number > count - 2
        accessible = (section, row) in WHEELCHAIR_ROWS and at_end
        attributes = {}
        if number in (1, count):
            attributes["aisle"] = True
        if section == "balcony" and at_end:
            attributes["restricted_view"] = True
        yield [f"{section[0].upper()}-{ROW_NAMES[row]}-{number}", section, ROW_NAMES[row], number,
               "accessible" if accessible else "standard", price - (500 if "restricted_view" in attributes else 0),
               round(radius * math.sin(angle)), round(radius * math.cos(angle)),
               json.dumps(attributes) if attributes else ""]


# --- cabin: an A320 with 30 rows of A-F ------------------------------------------------------------------------

LETTER_X = {"A": -300, "B": -200, "C": -100, "D": 100, "E": 200, "F": 300}
WHERE = {"A": "window", "B": "middle", "C": "aisle", "D": "aisle", "E": "middle", "F": "window"}
BUSINESS_ROWS = range(1, 5)
EXIT_ROWS = {12, 13}
PRICES = {"business": 12000, "exit": 3500, "front": 2500, "window": 1500, "aisle": 1500, "middle": 900}


def cabin():
    y = 0
    for row in range(1, 31):
        y += 140 if row in BUSINESS_ROWS else 120 if row in EXIT_ROWS else 100
        for letter, x in LETTER_X.items():
            yield cabin_seat(row, letter, x, y)


def cabin_seat(row, letter, x, y):
    business = row in BUSINESS_ROWS
    place = WHERE[letter]
    attributes = {"position": place}
    if row in EXIT_ROWS:
        attributes["exit_row"] = True
    if business:
        price = PRICES["business"]
    elif row in EXIT_ROWS:
        price = PRICES["exit"]
    else:
        price = PRICES["front"] if row < 9 else PRICES[place]
    kind = "exit" if row in EXIT_ROWS else place
    return [f"{row}{letter}", "business" if business else "economy", row, letter, kind, price, x, y,
            json.dumps(attributes)]


if __name__ == "__main__":
    write("theatre.csv", theatre())
    write("cabin-a320.csv", cabin())
