"""Small workloads of SimAI and AICB."""

COLUMNS = ("comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,"
           "algbw,busbw,count")

AICB = f"""[rank0 ~ rank3]
{COLUMNS}
CommType.all_reduce,CommGroup.dp_group,2,6000000,init.model_setup,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.all_reduce,CommGroup.tp_group,2,4000000,forward.x,None,None,,None,None,None,2
CommType.barrier,CommGroup.all,4,99,forward.x,None,None,,None,None,None,1
CommType.broadcast,CommGroup.all,4,1000000,forward.x,None,0,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
"""


_EACH = "{},{},{},{},{},None,None,{},None,None,None,1".format


def aicb_stages(*stages):
    """Return a workload of AICB with a part for each stage, of two ranks.

    Rows are a type, a group, its size, bytes, what it belongs to, and what is additional.
    """
    parts = []
    for stage, rows in enumerate(stages):
        parts += [f"[ pp_stage{stage}: [rank{2 * stage}, rank{2 * stage + 1}] ]", COLUMNS]
        parts += [_EACH(f"CommType.{row[0]}", f"CommGroup.{row[1]}", *row[2:]) for row in rows]
    return "\n".join(parts) + "\n"


def layer(name, *steps, update=0):
    """Return the line of a layer of three steps: nanoseconds, word and bytes."""
    words = " ".join(f"{int(ns)} {word} {int(size)}" for ns, word, size in steps)
    return f"{name} -1 {words} {update}"


def simai(layers, *, policy="HYBRID_TRANSFORMER", gpus=None, tp=1, ep=1, pp=1, more=""):
    """Return a workload file."""
    count = "" if gpus is None else f"all_gpus: {gpus}"
    lines = "\n".join(layers)
    return (f"{policy} model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} {count} {more}\n"
            f"{len(layers)}\n{lines}\n")
