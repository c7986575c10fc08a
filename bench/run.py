"""`make bench`: runs the benchmarks beside their peers and writes build/bench/report.json, report.md and plots.

Environment: BENCH (one benchmark's name; all if empty), DURATION (seconds a measurement, 10), RUNS (of each side, 2).
Each benchmark is bench/<name>/bench.py with run(context) -> common.result(...), and plot(result, path) if bars don't do.
"""

import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys

import common

ORDER = ["holds", "best", "areas", "map", "refusals", "overload", "memory", "survive", "cluster"]


def main():
    common.supervise.end_on_signals()
    wanted = os.environ.get("BENCH") or None
    if wanted and wanted not in ORDER:
        sys.exit(f"bench: '{wanted}' is none of: {', '.join(ORDER)}")
    try:
        duration_s, runs = number("DURATION", 10), number("RUNS", 2)
        with common.servers.Workplace("bench") as place:
            context = common.Context(place, duration_s, runs)
            results = []
            for name in [wanted] if wanted else ORDER:
                common.say(f"{name}:")
                results.append(load(name).run(context))
                common.say(f"ratio {name} {results[-1]['ratio']:.2f}")
    except (common.BenchError, common.servers.ServerError, AssertionError) as error:
        sys.exit(f"bench: {error}")
    write_report(results)
    # Again at the end, where scripts look for it.
    for each in results:
        common.say(f"ratio {each['name']} {each['ratio']:.2f}")


def number(name, default):
    text = os.environ.get(name) or str(default)
    if not text.isdigit() or int(text) < 1:
        raise common.BenchError(f"{name} is '{text}': a whole number from 1 is wanted")
    return int(text)


def load(name):
    """bench/<name>/bench.py as a module of its own name."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", common.HERE / name / "bench.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- report --------------------------------------------------------------------------------------------------


def write_report(results):
    """Writes what was measured now, beside what earlier runs of single benchmarks measured."""
    common.REPORT.mkdir(parents=True, exist_ok=True)
    about = machine()
    path = common.REPORT / "report.json"
    known = {each["name"]: each for each in json.loads(path.read_text())} if path.exists() else {}
    known |= {each["name"]: each | {"measured": about} for each in results}
    known = [known[name] for name in ORDER if name in known]
    path.write_text(json.dumps(known, indent=2) + "\n")
    (common.REPORT / "report.md").write_text(markdown(known))
    for each in results:
        getattr(load(each["name"]), "plot", plot_bars)(each, common.REPORT / f"{each['name']}.png")
    common.say("written: build/bench/report.md, report.json, " + ", ".join(f"{each['name']}.png" for each in results))


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=common.servers.CLONE, capture_output=True,
                            text=True, check=False).stdout.strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit,
            "cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1),
            "kernel": platform.release()}


def markdown(results):
    lines = ["# holdfast: benchmarks", "", "Load, server and stores share the machine.", ""]
    for each in results:
        about = each["measured"]
        lines += [f"## {each['name']}: ratio {each['ratio']:.2f}", "", f"{each['title']}.", "",
                  f"{about['date']}, commit {about['commit']}; {about['cpu']}, {about['cores']} cores, "
                  f"{about['memory_gib']} GiB, Linux {about['kernel']}.", "",
                  f"| | median {each['unit']} | runs |", "|---|---|---|"]
        lines += [f"| {series['label']} | {series['median']:,.0f} | "
                  f"{', '.join(f'{value:,.0f}' for value in series['runs'])} |" for series in each["series"]]
        latency = each["notes"].get("latency", [])
        if latency:
            lines += ["", "holdfast's latency: " + "; ".join(
                f"p50 {load['p50_ms']:.1f} ms, p99 {load['p99_ms']:.1f} ms" for load in latency) + "."]
        lines += ["", f"![{each['name']}]({each['name']}.png)", ""]
    return "\n".join(lines)


def plot_bars(each, path):
    """Bars of the medians, a dot for every run."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.7 * len(each["series"])), layout="constrained")
    for index, series in enumerate(each["series"]):
        axes.barh(index, series["median"], color="#1b6ca8" if index == 0 else "#b0b7bf", height=0.6)
        axes.plot(series["runs"], [index] * len(series["runs"]), "o", color="#222222", markersize=5, markeredgecolor="white")
        axes.annotate(f" {series['median']:,.0f}", (max(series["runs"]), index), xytext=(6, 0),
                      textcoords="offset points", va="center")
    axes.set_yticks(range(len(each["series"])), [series["label"] for series in each["series"]])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * max(max(series["runs"]) for series in each["series"]))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel(each["unit"])
    axes.set_title(f"{each['title']} (ratio {each['ratio']:.2f})", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
