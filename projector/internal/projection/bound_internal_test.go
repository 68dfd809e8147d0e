package projection

import (
	"strings"
	"testing"
)

// linear are the functions without a bound: CEL's charge after the call is early enough, because
// they take time and memory in proportion to their arguments at most.
const linear = `
	_?_:_ _&&_ _||_ !_ @not_strictly_false __not_strictly_false__ -_ _-_ _*_ _/_ _%_ _==_ _!=_ _<_ _<=_ _>_ _>=_
	@in _in_ in _[_] _[?_] _?._ dyn type total first last cel.@block value or orValue hasValue
	optional.none optional.of optional.ofNonZeroValue size startsWith endsWith contains trim charAt substring lowerAscii upperAscii
	string bytes bool int double timestamp duration decimal plus startOf strftime
	uuid math.abs math.sign math.ceil math.floor math.round math.trunc math.isNaN math.isInf math.isFinite math.sqrt math.divide
	math.bitAnd math.bitNot math.bitOr math.bitShiftLeft math.bitShiftRight math.bitXor
	getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds`

// TestEveryFunctionIsBounded finds the functions that a new version of CEL adds.
func TestEveryFunctionIsBounded(t *testing.T) {
	t.Parallel()
	env, err := common()
	if err != nil {
		t.Fatal(err)
	}
	unbounded := map[string]bool{}
	for _, name := range strings.Fields(linear) {
		unbounded[name] = true
	}
	functions := env.Functions()
	for name := range functions {
		if bounded := functionTable[name].bound != nil; bounded == unbounded[name] {
			t.Errorf("function %s: it needs a bound, or a place among the functions that need none", name)
		}
	}
	for name := range functionTable {
		if functions[name] == nil {
			t.Errorf("there is no function %s", name)
		}
	}
}
