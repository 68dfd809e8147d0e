package broker

// Stun keeps the queue's alarm from firing at its next deadline, as a busy machine may
// delay it.
func (q *Queue) Stun() {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.alarm.stop()
}
