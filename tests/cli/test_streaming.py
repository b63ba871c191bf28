"""`generate` and `chat` on the default model, through pipes."""

import signal
import subprocess
import sys

WINGBEAT = [sys.executable, "-c", "from wingbeat.cli.main import main; main()"]
SMALL = ["--dtype", "float32", "--context", "512", "--max-tokens"]


def test_generate_reads_its_prompt_from_a_pipe():
    command = [*WINGBEAT, "generate", "-", "--stop", "\n", *SMALL, "8"]
    done = subprocess.run(command, input="Say hello.\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) > 2
    assert done.stdout.count("\n") == 1


def test_ctrl_c_stops_the_answer_and_not_the_chat():
    chat = subprocess.Popen(
        [*WINGBEAT, "chat", *SMALL, "200"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    chat.stdin.write(b"Tell me a long story about a fox and a river.\n")
    chat.stdin.flush()
    assert chat.stdout.read(5)
    chat.send_signal(signal.SIGINT)
    output, errors = chat.communicate(b"/reset\nWhat is 1 + 1?\n", timeout=120)
    assert chat.returncode == 0, errors
    assert b"(stopped)" in errors
    assert b"Traceback" not in errors
    _, answered = output.decode().split("\n", 1)
    assert answered.strip()
