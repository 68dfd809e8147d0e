package broker

// Stun keeps the queue's alarm from ringing at its next deadline, as a busy
// machine may do for a while.
func (q *Queue) Stun() {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.alarm.stop()
}
