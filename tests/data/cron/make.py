#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Computes when schedules run, minute by minute with Python's own zoneinfo, and writes runs.txt for test_server_cron.

    tests/data/cron/make.py > tests/data/cron/runs.txt

A line: schedule | zone | after (UTC seconds) | the runs after it (UTC seconds). Nothing clever: every minute of the span is looked at. A
schedule of a time of day runs at the first of two equal local times, and at the change when its time is skipped; one whose hour begins
with * runs whenever the clock shows its time.
"""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

SCHEDULES = ["*/7 * * * *", "30 * * * *", "30 2 * * *", "0 3 * * *", "15,45 1-3 * * *", "0 0 * * *", "30 0 * * *", "5 */3 * * *",
    "0 2 29 3 *", "0 12 13 * 5", "59 23 * * 0", "10 2 * 3,10,11 7"]
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "America/Santiago", "Asia/Kolkata", "UTC",
    "Africa/Casablanca", "Antarctica/Troll"]
STARTS = ["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-24", "2026-10-31", "2026-09-05", "2027-02-06", "2027-03-13"]
DAYS = 3
LIMITS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


def numbers(text, low, high):
    found = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, last = (low, high) if span == "*" else map(int, (span.split("-") * 2)[:2])
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def matches(fields, texts, local):
    minute, hour, day, month, weekday = fields
    of_week = (local.weekday() + 1) % 7
    is_weekday = of_week in weekday or (of_week == 0 and 7 in weekday)
    is_day = local.day in day
    right_day = is_day and is_weekday if "*" in (texts[2][0], texts[4][0]) else is_day or is_weekday
    return local.minute in minute and local.hour in hour and local.month in month and right_day


def runs(schedule, zone, start):
    texts = schedule.split()
    fields = [numbers(t, *limits) for t, limits in zip(texts, LIMITS)]
    is_interval = texts[1].startswith("*")
    tz = ZoneInfo(zone)
    found, seen = set(), set()
    moment = start - timedelta(days=1)
    while moment < start + timedelta(days=DAYS):
        local = moment.astimezone(tz).replace(tzinfo=None, fold=0)
        before = (moment - timedelta(minutes=1)).astimezone(tz).replace(tzinfo=None, fold=0)
        if not is_interval:
            skipped = before + timedelta(minutes=1)
            while skipped < local:  # the clock went past these
                if matches(fields, texts, skipped):
                    found.add(moment)
                skipped += timedelta(minutes=1)
        if matches(fields, texts, local) and (is_interval or local not in seen):
            found.add(moment)
        seen.add(local)
        moment += timedelta(minutes=1)
    return sorted(int(m.timestamp()) for m in found if m > start)


for z in ZONES:
    for s in SCHEDULES:
        for day in STARTS:
            begin = datetime.fromisoformat(day).replace(tzinfo=timezone.utc)
            times = runs(s, z, begin)
            print(f"{s} | {z} | {int(begin.timestamp())} | {' '.join(map(str, times[:40]))}")
