"""Another speculative configuration: steps, branches, nodes or the drafter itself."""

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="speculation",
    family="configuration",
    question="Is speculation configured another way?",
    predicts=(Prediction("a change of drafting, verify or acceptance alone", stays=("plain",)),),
    watches=(
        Watch("setting.speculative_algorithm"), Watch("setting.speculative_num_steps"),
        Watch("setting.speculative_eagle_topk"), Watch("setting.speculative_num_draft_tokens"),
        Watch("setting.num_speculative_tokens"), Watch("setting.speculative_config"), Watch("setting.steps"),
        Watch("setting.topk"), Watch("setting.nodes"), Watch("setting.drafter"), Watch("setting.auto"),
        Watch("setting.p_min"), Watch("setting.spec_draft_*"), Watch("setting.speculative_adaptive"),
        Watch("setting.speculative_token_map"), Watch("setting.method"),
    ),
    decides=(
        "setting.*steps*|setting.arguments", "setting.*topk|setting.arguments",
        "setting.nodes|setting.*draft_tokens|setting.arguments",
    ),
    shape="draft and verify change with what was set; plain decoding stays",
    see="a run recorded with its settings",
    experiments=("configuration",),
    near=3,
    needs="drafting",
)  # fmt: skip
