"""Where trajectories come from.

Reads: the hub, for sources that name a data set there; nothing else. Writes: results/download/<key>/, the list of a data set's files,
which lie read-only in the config's download store; results/simulate/<key>/, the simulated corpora in their native formats, with their
truth. Sources with a folder of their own are read in place and never written.
"""


localrules:
    fetch,


rule fetch:
    input:
        code=code("download"),
    output:
        manifest="results/download/{key}/manifest.json",
        files="results/download/{key}/files.json",
    log:
        "results/logs/download/{key}.log",
    benchmark:
        "results/benchmarks/download/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 4
    resources:
        mem_mb=1000,
    params:
        settings=settings("download"),
        options=options("download"),
        # On record, unlike the options: another store is filled.
        store=CONFIG.downloads.store,
    message:
        "Downloading one data set, or checking what is there."
    shell:
        "python -m evoaudit download --settings {params.settings:q} {params.options}"
        " --threads {threads} --out $(dirname {output.manifest:q}) 2> >(tee {log:q} >&2)"


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
