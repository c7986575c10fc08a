"""Writes theatre.csv, cabin-a320.csv and cabin-b777.csv beside itself. The files are committed; run this after changing a plan.

x and y are in hundredths of a seat's width, y growing away from the stage (or from the nose), so that a map can
be drawn without knowing what it shows. Prices are in the minor unit of the event's currency.
"""

import csv
import json
import math
import pathlib
import typing

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


# --- cabins: rows and letters as airlines have them, from the nose to the tail ----------------------------------

class Zone(typing.NamedTuple):
    """Rows of one class. seats: letters from left to right, | is an aisle."""
    section: str
    rows: list
    seats: str
    pitch: int  # inches
    prices: dict


class Cabin(typing.NamedTuple):
    width: int  # between its walls, in hundredths of an economy seat
    zones: list
    doors: dict  # row: inches of galley, lavatory and door before it
    exits: set
    bulkheads: dict  # row: letters with a wall to hang a bassinet on
    upright: set  # rows that don't recline: before an exit, or the last
    gone: dict  # row: letters that lavatories, doors or the tail's taper have taken


def rows(first, last, without=()):
    return [row for row in range(first, last + 1) if row not in without]


AISLE = 100  # as wide as an economy seat
SEAT_INCHES = 18
FEES = {"window": 1500, "aisle": 1500, "middle": 900, "exit": 3500}
# 180 seats in one class. No row 13, as many airlines have it, so the exits over the wing are at 12 and 14.
A320 = Cabin(
    width=700,
    zones=[Zone("front", rows(1, 6), "ABC|DEF", 30, dict.fromkeys(("window", "aisle", "middle"), 2500)),
           Zone("economy", rows(7, 31, {13}), "ABC|DEF", 29, FEES)],
    doors={}, exits={12, 14}, bulkheads={1: ""}, upright={11, 12, 31}, gone={})
# 331 seats in four classes. Letters: A and K at the windows, no I anywhere; where fewer stand abreast, those between
# are left out. Rows 3-4, 17-19, 24-29 and 45 are galleys and doors. 43-44 have lavatories in the middle.
B777 = Cabin(
    width=1100,
    zones=[Zone("first", rows(1, 2), "A|DG|K", 80, dict.fromkeys(("window", "aisle"), 60000)),
           Zone("business", rows(5, 16, {13}), "A|DG|K", 44, dict.fromkeys(("window", "aisle"), 25000)),
           Zone("premium", rows(20, 23), "AC|DEFG|HK", 38, dict.fromkeys(("window", "aisle", "middle"), 9000)),
           Zone("economy", rows(30, 59, {45}), "ABC|DEG|HJK", 31, FEES)],
    doors={5: 70, 10: 90, 20: 70, 30: 90, 46: 110}, exits={30, 46},
    bulkheads={5: "DG", 20: "DEFG", 30: "DEG", 46: "DEG"}, upright={44, 59},
    gone={43: "DEG", 44: "DEG", 46: "AK", 57: "BJ", 58: "BJ", 59: "BJ"})


def cabin(plan):
    y = 0
    for zone in plan.zones:
        for row in zone.rows:
            y += round((zone.pitch + plan.doors.get(row, 0)) * 100 / SEAT_INCHES)
            yield from cabin_row(plan, zone, row, y)


def cabin_row(plan, zone, row, y):
    blocks = zone.seats.split("|")
    width = (plan.width - AISLE * (len(blocks) - 1)) / sum(map(len, blocks))
    x = -plan.width / 2
    for place, block in enumerate(blocks):
        there = [letter for letter in block if letter not in plan.gone.get(row, "")]
        for letter in block:
            if letter in there:
                kind = seat_kind(letter, there, place, len(blocks))
                ends_block = letter == there[-1] and place < len(blocks) - 1
                yield [f"{row}{letter}", zone.section, row, letter, kind, cabin_price(plan, zone, row, kind),
                       round(x + width / 2), y, cabin_attributes(plan, row, letter, ends_block)]
            x += width
        x += AISLE


def seat_kind(letter, block, place, blocks):
    """At a wall, at an aisle, or between others: what somebody waits for."""
    if (place == 0 and letter == block[0]) or (place == blocks - 1 and letter == block[-1]):
        return "window"
    return "aisle" if letter in (block[0], block[-1]) else "middle"


def cabin_price(plan, zone, row, kind):
    return zone.prices["exit"] if row in plan.exits and "exit" in zone.prices else zone.prices[kind]


def cabin_attributes(plan, row, letter, ends_block):
    said = {
        "aisle_after": ends_block,
        "exit_row": row in plan.exits,
        "extra_legroom": row in plan.exits or row in plan.bulkheads,
        "bassinet": letter in plan.bulkheads.get(row, ""),
        "no_recline": row in plan.upright,
    }
    return json.dumps({name: True for name, is_so in said.items() if is_so}) if any(said.values()) else ""


if __name__ == "__main__":
    write("theatre.csv", theatre())
    write("cabin-a320.csv", cabin(A320))
    write("cabin-b777.csv", cabin(B777))
