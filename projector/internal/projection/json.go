package projection

import (
	"errors"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// jsonFunction declares json(text), for event stores that keep payloads as JSON in a text. It
// reads Extended JSON, relaxed or canonical, within the limits of an event.
func jsonFunction() cel.EnvOption {
	return cel.Function("json", cel.Overload("penstock_json", []*cel.Type{cel.StringType}, cel.DynType,
		cel.UnaryBinding(func(text ref.Val) ref.Val { return parseJSON(nil, text) })))
}

func parseJSON(m *meter, text ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return noOverload("json", text)
	}
	v, err := event.ParseJSON(string(s))
	if refused, ok := errors.AsType[*event.ContractError](err); ok {
		err = errors.New(refused.Detail)
	}
	if err != nil {
		return types.NewErr("json cannot read the text: %v", err)
	}
	return celValue(v, m)
}
