"""Where trajectories come from.

Reads: nothing. Writes: results/simulate/<key>/, the simulated corpora in their native formats, with their truth.
Real data sets are folders that the config points at; they are read in place and never written.
"""


rule simulate:
    input:
        code=code("simulate"),
    output:
        manifest="results/simulate/{key}/manifest.json",
    log:
        "results/logs/simulate/{key}.log",
    benchmark:
        "results/benchmarks/simulate/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 2
    resources:
        mem_mb=2000,
    params:
        settings=settings("simulate"),
        options=options("simulate"),
    message:
        "Simulating a corpus with a known truth."
    shell:
        "python -m evoaudit simulate --settings {params.settings:q} {params.options} --threads {threads} --out $(dirname {output.manifest:q}) 2> {log:q}"
