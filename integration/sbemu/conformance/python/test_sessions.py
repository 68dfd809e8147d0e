import datetime
import time

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusSubQueue
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, SessionCannotBeLockedError, SessionLockLostError

from namespace import Case, message


class Sessions(Case):
    def sessions(self, **properties):
        return self.queue(requires_session=True, **properties)

    def test_session_is_accepted_by_its_id(self):
        queue = self.sessions()
        self.send(queue, message("1", session_id="a"))
        self.send(queue, message("2", session_id="b"))
        self.send(queue, message("3", session_id="a"))
        receiver = self.receiver(queue, session_id="a")
        self.assertEqual(receiver.session.session_id, "a")
        self.assertBodies(self.receive(receiver, 2), "1", "3")

    def test_next_session_is_accepted(self):
        queue = self.sessions()
        self.send(queue, message("1", session_id="only"))
        receiver = self.receiver(queue, session_id=NEXT_AVAILABLE_SESSION)
        self.assertEqual(receiver.session.session_id, "only")
        [got] = self.receive(receiver, 1)
        self.assertEqual(got.session_id, "only")
        receiver.complete_message(got)

    def test_session_of_a_subscription_is_accepted(self):
        topic = self.topic(requires_session=True)
        self.enterContext(self.client.get_topic_sender(topic)).send_messages(message("1", session_id="a"))
        receiver = self.enterContext(self.client.get_subscription_receiver(topic, "subscription", session_id="a"))
        self.assertBodies(self.receive(receiver, 1), "1")

    def test_locked_session_cannot_be_accepted(self):
        queue = self.sessions()
        holder = self.client.get_queue_receiver(queue, session_id="a")
        with holder:
            holder.session.get_state()
            with self.assertRaises(SessionCannotBeLockedError):
                with self.connect().get_queue_receiver(queue, session_id="a") as second:
                    second.receive_messages(1, max_wait_time=2)
        with self.connect().get_queue_receiver(queue, session_id="a") as third:
            third.session.get_state()

    def test_without_a_session_the_wait_ends(self):
        queue = self.sessions()
        with self.assertRaises(OperationTimeoutError):
            with self.client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
                receiver.receive_messages(1, max_wait_time=3)

    def test_released_session_does_not_count_deliveries(self):
        queue = self.sessions()
        self.send(queue, message("1", session_id="a"))
        with self.client.get_queue_receiver(queue, session_id="a") as first:
            self.receive(first, 1)
        [again] = self.receive(self.receiver(queue, session_id="a"), 1)
        self.assertEqual(again.delivery_count, 0)

    def test_session_has_a_state(self):
        queue = self.sessions()
        with self.client.get_queue_receiver(queue, session_id="a") as receiver:
            self.assertIsNone(receiver.session.get_state())
            receiver.session.set_state(b"half done")
        with self.client.get_queue_receiver(queue, session_id="a") as receiver:
            self.assertEqual(receiver.session.get_state(), b"half done")
            receiver.session.set_state(None)
            self.assertIsNone(receiver.session.get_state())

    def test_session_lock_is_renewed(self):
        queue = self.sessions(lock_duration=datetime.timedelta(seconds=5))
        receiver = self.receiver(queue, session_id="a")
        before = receiver.session.locked_until_utc
        time.sleep(1)
        self.assertGreater(receiver.session.renew_lock(), before)

    def test_message_of_an_expired_session_cannot_be_completed(self):
        queue = self.sessions(lock_duration=datetime.timedelta(seconds=5))
        self.send(queue, message("1", session_id="a"))
        receiver = self.receiver(queue, session_id="a")
        [got] = self.receive(receiver, 1)
        time.sleep(5.5)
        with self.assertRaises(SessionLockLostError):
            receiver.complete_message(got)

    def test_deferred_messages_of_a_session_are_settled(self):
        queue = self.sessions()
        self.send(queue, *(message(str(n), session_id="a") for n in range(2)))
        receiver = self.receiver(queue, session_id="a")
        numbers = []
        for got in self.receive(receiver, 2):
            numbers.append(got.sequence_number)
            receiver.defer_message(got)
        first, second = receiver.receive_deferred_messages(numbers)
        self.assertBodies([first, second], "0", "1")
        receiver.complete_message(first)
        receiver.dead_letter_message(second, reason="late")
        dead = self.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        [found] = self.receive(dead, 1)
        self.assertEqual((str(found), found.dead_letter_reason), ("1", "late"))

    def test_session_is_peeked(self):
        queue = self.sessions()
        self.send(queue, message("1", session_id="a"))
        self.send(queue, message("2", session_id="b"))
        receiver = self.receiver(queue, session_id="a")
        self.assertBodies(receiver.peek_messages(10), "1")
        self.assertBodies(self.receive(receiver, 1), "1")

    def test_session_is_iterated_in_order(self):
        queue = self.sessions()
        self.send(queue, *(message(str(n), session_id="a") for n in range(20)))
        receiver = self.receiver(queue, session_id="a", max_wait_time=2)
        seen = []
        for got in receiver:
            seen.append(str(got))
            receiver.complete_message(got)
        self.assertEqual(seen, [str(n) for n in range(20)])

    def test_receiver_without_a_session_is_refused(self):
        queue = self.sessions()
        with self.assertRaises(ServiceBusError):
            with self.client.get_queue_receiver(queue) as receiver:
                receiver.receive_messages(1, max_wait_time=2)
