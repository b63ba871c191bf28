"""A wider verify: more tokens in each, and a kernel that reads weights or cache once for every few of them."""

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="width",
    family="verify's code path",
    question="Does a verify take more tokens, and pay for each?",
    predicts=(Prediction("longer verifies with more tokens in each", moves=("verify",), stays=("plain",)),),
    watches=(Watch("run.width", "more"),),
    decides=("run.width|setting.*draft_tokens|setting.nodes|setting.*steps*",),
    shape="grows with the tokens verified, and with context where the cache is read for each",
    see="a run recorded cycle by cycle",
    experiments=("configuration", "kernel"),
    near=2,
    needs="drafting",
)
