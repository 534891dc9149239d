"""Run all benchmarks and write their tables into log/; `make bench`.

python benchmarks/run.py                  everything; leave the machine alone
python benchmarks/run.py --only kmeans    one of them
python benchmarks/run.py --resume         only those that have no figures of this commit
python benchmarks/run.py --quick          small sizes; prints the tables and writes nothing
"""

import argparse

import anytime
import cosine
import dask_tables
import dp_means
import ellipses
import features
import first_call
import fixed_k
import gibbs
import graphs
import hdp
import how_many
import kernels
import kmeans
import layers
import medoids
import memory
import neighbours
import online
import out_of_core
import threads
from common import machine, measured, say, write_section

SCRIPTS = {
    "kmeans": kmeans,
    "first_call": first_call,
    "fixed_k": fixed_k,
    "anytime": anytime,
    "dp_means": dp_means,
    "how_many": how_many,
    "features": features,
    "cosine": cosine,
    "online": online,
    "out_of_core": out_of_core,
    "dask_tables": dask_tables,
    "medoids": medoids,
    "ellipses": ellipses,
    "graphs": graphs,
    "kernels": kernels,
    "hdp": hdp,
    "gibbs": gibbs,
    "neighbours": neighbours,
    "layers": layers,
    "threads": threads,
    "memory": memory,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=SCRIPTS, action="append")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    sections = {"machine": lambda quick: machine()}
    sections |= {name: SCRIPTS[name].measure for name in arguments.only or SCRIPTS}
    if arguments.resume:
        done = [name for name in sections if measured(name)]
        sections = {name: measure for name, measure in sections.items() if name not in done}
    for i, (name, measure) in enumerate(sections.items(), 1):
        say(f"== {name}, {i} of {len(sections)}")
        text = measure(arguments.quick)
        print(text, end="\n\n", flush=True)
        if not arguments.quick:
            write_section(name, text)


if __name__ == "__main__":
    main()
