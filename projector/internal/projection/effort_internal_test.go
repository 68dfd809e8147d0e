package projection

import "testing"

// TestOnlyExpressionsThatCanLoopAreCounted checks which expressions CEL counts the cost
// of.
func TestOnlyExpressionsThatCanLoopAreCounted(t *testing.T) {
	t.Parallel()
	env, err := newEnvironment(nil)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]bool{
		"payload.a":                                  false,
		"payload.?a.orValue('x')":                    false,
		"{'sku': payload.sku, 'n': -1 * 2}":          false,
		"has(payload.a) && payload.a != 'x'":         false,
		"[payload.a] + state.list":                   false,
		"payload.a in state.list":                    false,
		"math.greatest(payload.a, 7)":                false,
		"state.list.map(x, x)":                       true,
		"{'in': state.list.exists(x, x)}":            true,
		"payload.b ? [state.m.filter(k, true)] : []": true,
		"cel.bind(x, payload.a, x + x)":              true,
		"lists.range(9)":                             true,
		"sets.contains(state.a, state.b)":            true,
		"payload.s.matches('^a*$')":                  true,
		"payload.s.replace('', payload.s)":           true,
	} {
		x, issues := compile(env, source, anyValue)
		if issues != nil {
			t.Fatal(source, issues)
		}
		if got := canLoop(x.checked); got != want {
			t.Errorf("%s can loop: %t, want %t", source, got, want)
		}
	}
}
