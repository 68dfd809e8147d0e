package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrOwned is returned if another pipeline owns a name. The error is a [*ConflictError].
var ErrOwned = errors.New("name is owned by another pipeline")

// OwnerField is one part of an owner's identity, such as its topic.
type OwnerField struct {
	Name  string `bson:"name"`
	Value string `bson:"value"`
}

// OwnedName is a name that only one pipeline may use.
type OwnedName struct {
	// Kind and Name identify it, such as "projection" and "users".
	Kind, Name string
	// Owner is the pipeline. Its fields and their order are the same in every version.
	Owner []OwnerField
}

// ID is the _id of the record of the name.
func (n OwnedName) ID() string { return n.Kind + " " + n.Name }

// ParseName returns the name of a record by its _id.
func ParseName(id string) OwnedName {
	kind, name, _ := strings.Cut(id, " ")
	return OwnedName{Kind: kind, Name: name}
}

// Conflict is a name with another owner.
type Conflict struct {
	OwnedName
	// Recorded is the stored owner.
	Recorded []OwnerField
}

// String lists the fields in which the owners differ.
func (c Conflict) String() string {
	var differences []string
	for _, here := range c.Owner {
		if recorded := valueOf(c.Recorded, here.Name); recorded != here.Value {
			differences = append(differences, fmt.Sprintf("%s: recorded %q, now %q", here.Name, recorded, here.Value))
		}
	}
	return fmt.Sprintf("%s %q (%s)", c.Kind, c.Name, strings.Join(differences, "; "))
}

func valueOf(fields []OwnerField, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// sameOwner reports whether the recorded owner has all fields of this one with the same
// values.
func sameOwner(recorded, here []OwnerField) bool {
	return !slices.ContainsFunc(here, func(f OwnerField) bool { return valueOf(recorded, f.Name) != f.Value })
}

// ConflictError is the error [ErrOwned] with all conflicts.
type ConflictError struct{ Conflicts []Conflict }

// Error lists the conflicts.
func (e *ConflictError) Error() string {
	texts := make([]string, len(e.Conflicts))
	for i, c := range e.Conflicts {
		texts[i] = c.String()
	}
	return "owned by another pipeline: " + strings.Join(texts, ", ")
}

// Is makes the error an [ErrOwned].
func (e *ConflictError) Is(target error) bool { return target == ErrOwned }
