package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The formula is compiled and run in the same way as by KEDA's operator
// (apis/keda/v1alpha1/scaledobject_webhook.go, pkg/scaling/modifiers/formula.go). A trigger
// that cannot be read is nil. If the result is nil, KEDA uses the fallback's replicas. So
// during an outage of Prometheus, messages still scale the projector.
func TestFormulaScalesByTheTriggersThatCanBeRead(t *testing.T) {
	start(t)
	object := &unstructured.Unstructured{}
	objects := helm(t, "template", releaseName, chart, "--values", values+"/keda.yaml", "--show-only", "templates/projector/keda.yaml")
	scaled, _, _ := strings.Cut(strings.TrimPrefix(objects, "---\n"), "\n---\n")
	must(t, yaml.Unmarshal([]byte(scaled), object))
	formula, _, err := unstructured.NestedString(object.Object, "spec", "advanced", "scalingModifiers", "formula")
	must(t, err)
	if !strings.Contains(formula, "??") {
		t.Fatalf("KEDA takes no nil for the result of %q", formula)
	}
	cast := fmt.Sprintf("let _kedaCompositeResult = (%s); _kedaCompositeResult == nil ? nil : float(_kedaCompositeResult)", formula)
	program, err := expr.Compile(cast, expr.Env(map[string]float64{"messages": -1, "sessions": -1}))
	must(t, err)
	for name, test := range map[string]struct{ messages, sessions, want any }{
		"few messages in many sessions": {5_000.0, 5_000.0, 5_000.0},
		"many messages in one session":  {80_000.0, 1.0, 1_250.0},
		"sessions are not counted":      {80_000.0, 0.0, 80_000.0},
		"Prometheus cannot be read":     {80_000.0, nil, 80_000.0},
		"messages cannot be read":       {nil, 16.0, 20_000.0},
		"neither can be read":           {nil, nil, nil},
	} {
		got, err := expr.Run(program, map[string]any{"messages": test.messages, "sessions": test.sessions})
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}
