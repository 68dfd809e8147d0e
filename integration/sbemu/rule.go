package sbemu

// Rule selects messages for a subscription.
type Rule struct {
	Name string
}
