import datetime
import time

from azure.servicebus import ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageSizeExceededError, MessagingEntityNotFoundError, ServiceBusAuthenticationError,
    ServiceBusAuthorizationError, ServiceBusError)

from namespace import CONNECTION_STRING, LISTEN_ONLY, SEND_ONLY, Case, message

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


class Sending(Case):
    def test_message_arrives_with_its_properties(self):
        queue = self.queue()
        self.send(queue, message(
            "hello", message_id="m-1", content_type="text/plain", correlation_id="c-1", subject="greeting",
            to="there", reply_to="here", application_properties={"text": "a", "number": 2, "yes": True}))
        [got] = self.receive(self.receiver(queue), 1)
        self.assertEqual(str(got), "hello")
        self.assertEqual((got.message_id, got.content_type, got.correlation_id), ("m-1", "text/plain", "c-1"))
        self.assertEqual((got.subject, got.to, got.reply_to), ("greeting", "there", "here"))
        self.assertEqual(got.application_properties, {b"text": b"a", b"number": 2, b"yes": True})
        self.assertEqual(got.delivery_count, 0)
        self.assertIsNotNone(got.lock_token)
        self.assertGreater(got.locked_until_utc, got.enqueued_time_utc)

    def test_messages_arrive_in_order(self):
        queue = self.queue()
        sender = self.sender(queue)
        for n in range(20):
            sender.send_messages(message(str(n)))
        messages = self.receive(self.receiver(queue), 20)
        self.assertBodies(messages, *map(str, range(20)))
        numbers = [got.sequence_number for got in messages]
        self.assertEqual(numbers, sorted(numbers))

    def test_batch_arrives_whole_and_in_order(self):
        queue = self.queue()
        sender = self.sender(queue)
        batch = sender.create_message_batch()
        for n in range(100):
            batch.add_message(message(str(n), message_id=f"m-{n}"))
        sender.send_messages(batch)
        self.assertBodies(self.receive(self.receiver(queue, receive_mode=DELETE), 100), *map(str, range(100)))

    def test_message_of_many_frames_arrives_whole(self):
        queue = self.queue()
        body = b"payload" * 30_000
        self.send(queue, message(body))
        [got] = self.receive(self.receiver(queue), 1)
        self.assertEqual(b"".join(got.body), body)

    def test_message_over_the_limit_is_refused(self):
        queue = self.queue()
        before = time.monotonic()
        with self.assertRaises(MessageSizeExceededError):
            self.sender(queue).send_messages(message("x" * 300_000))
        self.assertLess(time.monotonic() - before, 5)

    def test_duplicate_is_dropped(self):
        queue = self.queue(requires_duplicate_detection=True)
        self.send(queue, message("first", message_id="same"))
        self.send(queue, message("second", message_id="same"))
        self.send(queue, message("third", message_id="other"))
        receiver = self.receiver(queue, receive_mode=DELETE)
        self.assertBodies(self.receive(receiver, 2), "first", "third")
        self.assertNothing(receiver)

    def test_message_without_session_is_refused_where_sessions_are_required(self):
        with self.assertRaises(ServiceBusError):
            self.send(self.queue(requires_session=True), message("none"))

    def test_message_expires(self):
        queue = self.queue()
        self.send(queue, message("short", time_to_live=datetime.timedelta(seconds=1)), message("long"))
        time.sleep(1.5)
        self.assertBodies(self.receive(self.receiver(queue, receive_mode=DELETE), 1), "long")

    def test_topic_hands_messages_to_its_subscription(self):
        topic = self.topic()
        self.enterContext(self.client.get_topic_sender(topic)).send_messages(message("news"))
        receiver = self.enterContext(self.client.get_subscription_receiver(topic, "subscription"))
        self.assertBodies(self.receive(receiver, 1), "news")


class Settling(Case):
    def test_completed_message_is_gone(self):
        queue = self.queue()
        self.send(queue, message("1"), message("2"))
        receiver = self.receiver(queue)
        for got in self.receive(receiver, 2):
            receiver.complete_message(got)
        self.assertNothing(receiver)

    def test_abandoned_message_comes_again_and_is_counted(self):
        queue = self.queue()
        self.send(queue, message("1"))
        receiver = self.receiver(queue)
        receiver.abandon_message(self.receive(receiver, 1)[0])
        [again] = self.receive(receiver, 1)
        self.assertEqual(again.delivery_count, 1)

    def test_message_is_dead_lettered_after_its_last_delivery(self):
        queue = self.queue(max_delivery_count=2)
        self.send(queue, message("poison"))
        receiver = self.receiver(queue)
        for _ in range(2):
            receiver.abandon_message(self.receive(receiver, 1)[0])
        self.assertNothing(receiver)
        [dead] = self.receive(self.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER), 1)
        self.assertEqual(dead.dead_letter_reason, "MaxDeliveryCountExceeded")

    def test_message_is_dead_lettered_with_a_reason(self):
        queue = self.queue()
        self.send(queue, message("1"))
        receiver = self.receiver(queue)
        receiver.dead_letter_message(self.receive(receiver, 1)[0], reason="broken", error_description="no field")
        dead = self.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        [found] = self.receive(dead, 1)
        self.assertEqual((found.dead_letter_reason, found.dead_letter_error_description), ("broken", "no field"))
        dead.complete_message(found)
        self.assertNothing(dead)

    def test_deferred_message_is_received_by_its_number(self):
        queue = self.queue()
        self.send(queue, message("later"))
        receiver = self.receiver(queue)
        [got] = self.receive(receiver, 1)
        receiver.defer_message(got)
        self.assertNothing(receiver)
        [deferred] = receiver.receive_deferred_messages(got.sequence_number)
        self.assertEqual(str(deferred), "later")
        receiver.complete_message(deferred)
        with self.assertRaises(ServiceBusError):
            receiver.receive_deferred_messages(got.sequence_number)

    def test_deferred_message_is_abandoned_and_stays_deferred(self):
        queue = self.queue()
        self.send(queue, message("later"))
        receiver = self.receiver(queue)
        [got] = self.receive(receiver, 1)
        receiver.defer_message(got)
        receiver.abandon_message(receiver.receive_deferred_messages(got.sequence_number)[0])
        self.assertBodies(receiver.receive_deferred_messages(got.sequence_number), "later")

    def test_lock_is_renewed(self):
        queue = self.queue(lock_duration=datetime.timedelta(seconds=5))
        self.send(queue, message("1"))
        receiver = self.receiver(queue)
        [got] = self.receive(receiver, 1)
        before = got.locked_until_utc
        time.sleep(1)
        self.assertGreater(receiver.renew_message_lock(got), before)
        receiver.complete_message(got)

    def test_message_whose_lock_has_ended_cannot_be_completed(self):
        queue = self.queue(lock_duration=datetime.timedelta(seconds=5))
        self.send(queue, message("1"))
        receiver = self.receiver(queue)
        [got] = self.receive(receiver, 1)
        time.sleep(5.5)
        with self.assertRaisesRegex(ServiceBusError, "lock has expired"):
            receiver.complete_message(got)
        [again] = self.receive(receiver, 1)
        self.assertEqual(again.delivery_count, 1)

    def test_receive_and_delete_leaves_nothing(self):
        queue = self.queue()
        self.send(queue, message("1"), message("2"))
        self.assertBodies(self.receive(self.receiver(queue, receive_mode=DELETE), 2), "1", "2")
        self.assertEqual(self.receiver(queue).peek_messages(1), [])

    def test_receiver_is_iterated(self):
        queue = self.queue()
        self.send(queue, *(message(str(n)) for n in range(30)))
        receiver = self.receiver(queue, max_wait_time=2)
        seen = []
        for got in receiver:
            seen.append(str(got))
            receiver.complete_message(got)
        self.assertEqual(seen, [str(n) for n in range(30)])

    def test_prefetched_messages_are_settled(self):
        queue = self.queue()
        self.send(queue, *(message(str(n)) for n in range(50)))
        receiver = self.receiver(queue, prefetch_count=20)
        messages = self.receive(receiver, 50)
        self.assertBodies(messages, *map(str, range(50)))
        for got in messages:
            receiver.complete_message(got)
        self.assertEqual(receiver.peek_messages(1), [])


class Browsing(Case):
    def test_peek_takes_nothing(self):
        queue = self.queue()
        self.send(queue, message("1"), message("2"), message("3"))
        receiver = self.receiver(queue)
        peeked = receiver.peek_messages(2)
        self.assertBodies(peeked, "1", "2")
        self.assertBodies(receiver.peek_messages(5, sequence_number=peeked[1].sequence_number), "2", "3")
        self.assertBodies(self.receive(receiver, 3), "1", "2", "3")

    def test_scheduled_message_comes_at_its_time(self):
        queue = self.queue()
        [number] = self.sender(queue).schedule_messages(
            message("later"), datetime.datetime.utcnow() + datetime.timedelta(seconds=5))
        receiver = self.receiver(queue)
        self.assertEqual([got.sequence_number for got in receiver.peek_messages(1)], [number])
        self.assertNothing(receiver)
        self.assertBodies(self.receive(receiver, 1), "later")

    def test_scheduled_messages_are_cancelled(self):
        queue = self.queue()
        sender = self.sender(queue)
        numbers = sender.schedule_messages(
            [message("1"), message("2")], datetime.datetime.utcnow() + datetime.timedelta(minutes=1))
        sender.cancel_scheduled_messages(numbers)
        self.assertEqual(self.receiver(queue).peek_messages(5), [])


class Refusals(Case):
    def test_wrong_key_is_refused(self):
        queue = self.queue()
        head, _, _ = CONNECTION_STRING.rpartition("SharedAccessKey=")
        with self.assertRaises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
            with self.connect(head + "SharedAccessKey=d3Jvbmc=").get_queue_sender(queue) as sender:
                sender.send_messages(message("1"))

    def test_key_that_may_listen_cannot_send(self):
        queue = self.queue()
        with self.assertRaises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
            with self.connect(LISTEN_ONLY).get_queue_sender(queue) as sender:
                sender.send_messages(message("1"))

    def test_key_that_may_send_cannot_receive(self):
        queue = self.queue()
        with self.assertRaises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
            with self.connect(SEND_ONLY).get_queue_receiver(queue) as receiver:
                receiver.receive_messages(1, max_wait_time=2)

    def test_missing_entity_is_not_found(self):
        with self.assertRaises((MessagingEntityNotFoundError, ServiceBusAuthenticationError)):
            with self.client.get_queue_sender("nothing-here") as sender:
                sender.send_messages(message("1"))
