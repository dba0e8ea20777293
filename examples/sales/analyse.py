"""What was sold where, when and of what: a table on stdout, and files in report/."""

import csv
import json
import sys
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from pathlib import Path


def read(path):
    """(month, region, product, units, revenue) of each line. One that makes no sense ends the program."""
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            try:
                units, price = int(row["units"]), Decimal(row["price"])
            except (ValueError, InvalidOperation):
                sys.exit(f"{path}: units and price must be numbers: {row['units']}, {row['price']}")
            yield row["date"][:7], row["region"], row["product"], units, units * price


def sums(rows, key):
    total = defaultdict(Decimal)
    for row in rows:
        total[row[key]] += row[4]
    return dict(sorted(total.items()))


def chart(months):
    """Bars, as SVG."""
    top, bars = max(months.values()), []
    for i, (month, value) in enumerate(months.items()):
        height = int(value * 100 / top)
        bars.append(f'<rect x="{i * 30}" y="{100 - height}" width="24" height="{height}"><title>{month}: {value}</title></rect>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {30 * len(months)} 100">\n' + "\n".join(bars) + "\n</svg>\n"


def main():
    rows = list(read(sys.argv[1]))
    regions, months, products = sums(rows, 1), sums(rows, 0), sums(rows, 2)
    for region, value in regions.items():
        print(f"{region:<8}{value:>12}")
    print(f"{'all':<8}{sum(regions.values()):>12}")
    report = Path("report")
    report.mkdir(exist_ok=True)
    summary = {"lines": len(rows), "regions": regions, "products": products, "best_month": max(months, key=months.get)}
    (report / "summary.json").write_text(json.dumps(summary, indent=1, default=str) + "\n")
    with open(report / "months.csv", "w", newline="") as f:
        csv.writer(f).writerows([("month", "revenue"), *months.items()])
    (report / "months.svg").write_text(chart(months))
    print(f"{len(rows)} lines, report in {report}/", file=sys.stderr)


if __name__ == "__main__":
    main()
