import os
import signal

from damnatio.training import stopping


def test_a_signal_asks_to_stop_and_the_request_can_be_taken_back() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        stopping.install([signal.SIGUSR2])
        assert not stopping.stop_requested()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert stopping.stop_requested()
        stopping.forget_request()
        assert not stopping.stop_requested()
    finally:
        signal.signal(signal.SIGUSR2, before)
