from wingbeat.cli.chat import converse
from wingbeat.errors import CapacityError


class Terminal:
    """A person's turns; an exception among them is raised as the terminal would."""

    def __init__(self, *turns):
        self.turns = iter(turns)

    def __call__(self):
        turn = next(self.turns, EOFError())
        if isinstance(turn, BaseException):
            raise turn
        return turn


class Echo:
    """Answers with the number of messages it was given, and remembers them. "stop" is stopped half way."""

    def __init__(self):
        self.histories = []
        self.closed = 0

    def __call__(self, history):
        self.histories.append([message["content"] for message in history])
        try:
            yield f"{len(history)} "
            if history[-1]["content"] == "stop":
                raise KeyboardInterrupt
            yield "said"
        finally:
            self.closed += 1


def test_the_history_grows_turn_by_turn(capsys):
    echo = Echo()
    converse(Terminal("one", "", "  two  "), echo)
    assert echo.histories == [["one"], ["one", "1 said", "two"]]
    assert capsys.readouterr().out == "1 said\n3 said\n"


def test_reset_forgets_and_exit_ends():
    echo = Echo()
    converse(Terminal("one", "/reset", "two", "/exit", "three"), echo)
    assert echo.histories == [["one"], ["two"]]


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(capsys):
    echo = Echo()
    converse(Terminal("stop", "go on"), echo)
    assert echo.histories == [["stop"], ["stop", "1 ", "go on"]]
    assert echo.closed == 2
    assert capsys.readouterr().out == "1 \n3 said\n"


def test_ctrl_c_at_the_prompt_says_how_to_leave(capsys):
    echo = Echo()
    converse(Terminal(KeyboardInterrupt(), "one"), echo)
    assert echo.histories == [["one"]]
    assert "/exit" in capsys.readouterr().err


def test_a_turn_that_does_not_fit_is_dropped_with_advice(capsys):
    def answer(history):
        if len(history) > 1:
            raise CapacityError("too long")
        yield "fine"

    converse(Terminal("one", "two"), answer)
    output = capsys.readouterr()
    assert output.out == "fine\n"
    assert "too long" in output.err
    assert "/reset" in output.err
