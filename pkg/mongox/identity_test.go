package mongox

import "testing"

func TestClustersAreComparedByNameAndMembers(t *testing.T) {
	t.Parallel()
	recorded := Cluster{Name: "replica set rs0", Hosts: []string{"a:1", "b:1"}}
	for name, test := range map[string]struct {
		other Cluster
		want  bool
	}{
		"same members":         {recorded, true},
		"one member in common": {Cluster{Name: "replica set rs0", Hosts: []string{"b:1", "c:1"}}, true},
		"other members":        {Cluster{Name: "replica set rs0", Hosts: []string{"c:1"}}, false},
		"another name":         {Cluster{Name: "replica set rs1", Hosts: []string{"a:1"}}, false},
		"unknown members":      {Cluster{Name: "replica set rs0"}, true},
	} {
		if got := recorded.MayBe(test.other); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
