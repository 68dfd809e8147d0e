package projection

import "testing"

// TestNamesThatMongoDBRefuses: a projection whose collection cannot have its name, or that of
// one which is being built, could be built and never become live.
func TestNamesThatMongoDBRefuses(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{"users": true, "users.v2": true, "systems": true, ".users": false, "system": false, "system.users": false} {
		if err := checkName(name); (err == nil) != valid {
			t.Errorf("the projection %q: %v", name, err)
		}
	}
	for name, valid := range map[string]bool{"users": true, "users.v2": true, "system": true, ".users": false, "system.users": false} {
		if err := checkCollection(name); (err == nil) != valid {
			t.Errorf("the collection %q: %v", name, err)
		}
	}
}
