package authoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference lists what changes between two definitions, one line for each value. A line
// with - is a value that only before has. A line with + is one that only after has.
func Difference(before, after string) []string {
	old, changed := flatten(before), flatten(after)
	paths := maps.Clone(old)
	maps.Copy(paths, changed)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, had := old[path]
		is, has := changed[path]
		if had && has && was == is {
			continue
		}
		if had {
			lines = append(lines, "- "+path+": "+was)
		}
		if has {
			lines = append(lines, "+ "+path+": "+is)
		}
	}
	return lines
}

// Layout describes what the documents of a view show of its parts, beside the values that a part
// contributes: how they hold the parts, and the kinds of the totals. It is equal for all
// definitions that are no views.
func Layout(definition string) string {
	type totals map[string]map[string]any
	var layout struct {
		From []struct {
			AggregateType string
			As, Keep      any
			Totals        totals
		}
	}
	if err := json.Unmarshal([]byte(definition), &layout); err != nil {
		return definition
	}
	for _, from := range layout.From {
		for _, words := range from.Totals {
			delete(words, "where")
			for word := range words {
				words[word] = nil // the part shows what an expression gives
			}
		}
	}
	return fmt.Sprint(layout)
}

// flatten returns the values of a definition by their paths.
func flatten(definition string) map[string]string {
	found := map[string]string{}
	var v any
	if err := json.Unmarshal([]byte(definition), &v); err != nil {
		found["definition"] = definition
		return found
	}
	var walk func(path []string, v any)
	walk = func(path []string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			for key, value := range m {
				walk(append(slices.Clone(path), key), value)
			}
			return
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			if _, ok := list[0].(map[string]any); ok {
				for i, element := range list {
					walk(append(slices.Clone(path), nameOf(element, i)), element)
				}
				return
			}
		}
		found[strings.Join(path, " ")] = fmt.Sprint(v)
	}
	walk(nil, v)
	return found
}

// nameOf names an element of a list: a source of a view by its aggregates, so that another source
// does not change the name, and others by their position.
func nameOf(element any, i int) string {
	if source, ok := element.(map[string]any); ok {
		if aggregateType, ok := source["aggregateType"].(string); ok {
			return aggregateType
		}
	}
	return fmt.Sprintf("(%d)", i+1)
}
