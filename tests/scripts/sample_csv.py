"""Makes summary CSVs with the columns of the real ones, from a small model of a step; used by the tests of the plots."""
import csv

HEADER = ("schema_version run_id source outcome reason command model layers seq micro_batch global_batch precision ranks dp tp "
          "pp vpp cp ep etp zero_stage sequence_parallel tp_sync_fraction tp_overlap schedule recompute scope phase device "
          "ranks_per_core comm_backend host step_ms_p50 instrumented_step_ms compute_ms exposed_comm_ms idle_ms bubble_ms "
          "comm_ms exposed_tp_ms exposed_dp_ms exposed_pp_ms exposed_cp_ms exposed_ep_ms tokens_per_s parameter_bytes "
          "gradient_bytes optimizer_bytes activation_bytes memory_peak_bytes memory_measured_bytes max_rel_error").split()


def passed_row(dp, tp, pp, **changes):
    ranks = dp * tp * pp
    compute = 1000.0 / ranks
    parts = {"exposed_tp_ms": 40.0 * (tp - 1), "exposed_dp_ms": 25.0 * (dp - 1), "exposed_pp_ms": 6.0 * (pp - 1),
             "exposed_cp_ms": 0.0, "exposed_ep_ms": 0.0}
    bubble = compute * (pp - 1) / 8
    idle = bubble + 5
    step = compute + sum(parts.values()) + idle
    memory = {"parameter_bytes": 2e9 / (tp * pp), "gradient_bytes": 2e9 / (tp * pp), "optimizer_bytes": 4e9 / (tp * pp),
              "activation_bytes": 1e9 / tp}
    row = {name: "" for name in HEADER}
    row.update(schema_version=1, run_id="r", source="measured", outcome="passed", model="gpt2", layers=4, seq=128,
               micro_batch=1, global_batch=8, precision="f32", ranks=ranks, dp=dp, tp=tp, pp=pp, vpp=1, cp=1, ep=1, etp=1,
               zero_stage=0, sequence_parallel="false", tp_sync_fraction=1, tp_overlap="none", schedule="1f1b",
               recompute="none", scope="model", phase="train", device="AMD EPYC 7B13", ranks_per_core=max(1, ranks / 2),
               comm_backend="mpi", host="bench-host", step_ms_p50=step * 0.97, instrumented_step_ms=step,
               compute_ms=compute, exposed_comm_ms=sum(parts.values()), idle_ms=idle, bubble_ms=bubble,
               comm_ms=2 * sum(parts.values()), tokens_per_s=1024e3 / step, memory_peak_bytes=sum(memory.values()),
               memory_measured_bytes=sum(memory.values()) * 1.04, max_rel_error=1e-6, **parts, **memory)
    row.update(changes)
    return row


def write_csv(path, rows, header=None):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header or HEADER, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def sweep_rows():
    """Powers of two up to 8 ranks, one row of each other outcome, and skipped ones."""
    degrees = (1, 2, 4, 8)
    rows = [passed_row(dp, tp, pp) for dp in degrees for tp in degrees for pp in degrees if dp * tp * pp <= 8]
    bad = {name: "" for name in HEADER if name.endswith(("_ms", "_p50", "_bytes", "_s"))}
    rows.append(passed_row(1, 4, 4, outcome="failed", reason="rank 3 died, signal 11", **bad))
    rows.append(passed_row(4, 4, 1, outcome="incorrect", reason="max_rel_error 0.3"))
    rows += [passed_row(dp, 16, 1, outcome="skipped", reason="heads 12 do not divide by tp 16; legal: 1, 2, 3, 4, 6, 12",
                        **bad) for dp in degrees]
    return rows
