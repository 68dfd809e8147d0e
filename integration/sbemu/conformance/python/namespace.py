"""The namespace under test, from the environment that the conformance command sets,
and entities of their own for each test."""
import os
import unittest
import uuid

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

CONNECTION_STRING = os.environ["SERVICEBUS_CONNECTION_STRING"]
SEND_ONLY = os.environ["SERVICEBUS_CONNECTION_STRING_SEND_ONLY"]
LISTEN_ONLY = os.environ["SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY"]
CERTIFICATE = os.environ["SSL_CERT_FILE"]


class Case(unittest.TestCase):
    """A test with a client and an administration client."""

    def setUp(self):
        self.administration = self.enterContext(
            ServiceBusAdministrationClient.from_connection_string(CONNECTION_STRING))
        self.client = self.connect()

    def connect(self, connection_string=CONNECTION_STRING):
        # One attempt: a test wants to see the first answer of the server.
        return self.enterContext(ServiceBusClient.from_connection_string(
            connection_string, connection_verify=CERTIFICATE, retry_total=0))

    def queue(self, **properties):
        """Creates a queue of the test's own."""
        name = f"queue-{uuid.uuid4()}"
        self.administration.create_queue(name, **properties)
        return name

    def topic(self, **properties):
        """Creates a topic with one subscription of the test's own."""
        name = f"topic-{uuid.uuid4()}"
        self.administration.create_topic(name)
        self.administration.create_subscription(name, "subscription", **properties)
        return name

    def send(self, entity, *messages):
        with self.client.get_queue_sender(entity) as sender:
            sender.send_messages(list(messages))

    def sender(self, entity):
        return self.enterContext(self.client.get_queue_sender(entity))

    def receiver(self, entity, **options):
        return self.enterContext(self.client.get_queue_receiver(entity, **options))

    def receive(self, receiver, count):
        """Receives that many messages, and fewer if no more come in five seconds."""
        messages = []
        while len(messages) < count:
            batch = receiver.receive_messages(count - len(messages), max_wait_time=5)
            if not batch:
                break
            messages += batch
        return messages

    def assertNothing(self, receiver):
        self.assertEqual(receiver.receive_messages(1, max_wait_time=1), [])

    def assertBodies(self, messages, *bodies):
        self.assertEqual([str(message) for message in messages], list(bodies))


def message(body, **properties):
    return ServiceBusMessage(body, **properties)
