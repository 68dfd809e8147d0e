import datetime
import time
import uuid

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter

from namespace import Case, message


class Administration(Case):
    def test_queue_keeps_its_properties(self):
        queue = self.queue(lock_duration=datetime.timedelta(seconds=30), max_delivery_count=7, requires_session=True)
        found = self.administration.get_queue(queue)
        self.assertEqual(found.lock_duration, datetime.timedelta(seconds=30))
        self.assertEqual(found.max_delivery_count, 7)
        self.assertTrue(found.requires_session)
        self.administration.delete_queue(queue)
        with self.assertRaises(ResourceNotFoundError):
            self.administration.get_queue(queue)

    def test_counts_are_told(self):
        queue = self.queue()
        self.send(queue, message("1"), message("2"))
        receiver = self.receiver(queue)
        receiver.dead_letter_message(self.receive(receiver, 1)[0])
        # The SDK does not wait for the outcome of a settlement.
        for _ in range(50):
            counts = self.administration.get_queue_runtime_properties(queue)
            if counts.dead_letter_message_count:
                break
            time.sleep(0.1)
        self.assertEqual((counts.active_message_count, counts.dead_letter_message_count), (1, 1))

    def test_name_is_taken_once(self):
        queue = self.queue()
        with self.assertRaises(ResourceExistsError):
            self.administration.create_queue(queue)

    def test_subscriptions_are_listed(self):
        topic = self.topic()
        self.administration.create_subscription(topic, "second", requires_session=True)
        found = sorted(subscription.name for subscription in self.administration.list_subscriptions(topic))
        self.assertEqual(found, ["second", "subscription"])

    def test_queue_is_updated(self):
        queue = self.queue()
        properties = self.administration.get_queue(queue)
        properties.max_delivery_count = 3
        self.administration.update_queue(properties)
        self.assertEqual(self.administration.get_queue(queue).max_delivery_count, 3)

    def rule(self, filter, *messages):
        """Sends messages to a topic whose subscription has one rule."""
        topic = self.topic()
        self.administration.create_rule(topic, "subscription", "rule", filter=filter)
        self.administration.delete_rule(topic, "subscription", "$Default")
        self.enterContext(self.client.get_topic_sender(topic)).send_messages(list(messages))
        return self.enterContext(self.client.get_subscription_receiver(topic, "subscription"))

    def test_sql_rule_selects(self):
        receiver = self.rule(
            SqlRuleFilter("size > 10"),
            message("small", application_properties={"size": 1}), message("large", application_properties={"size": 11}))
        self.assertBodies(self.receive(receiver, 1), "large")
        self.assertNothing(receiver)

    def test_correlation_rule_selects(self):
        receiver = self.rule(
            CorrelationRuleFilter(correlation_id="green"),
            message("1", correlation_id="red"), message("2", correlation_id="green"))
        self.assertBodies(self.receive(receiver, 1), "2")

    def test_missing_topic_is_not_found(self):
        with self.assertRaises(ResourceNotFoundError):
            self.administration.get_topic(f"topic-{uuid.uuid4()}")
