package mongoemu_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// The fail point of drivers' tests: setting it again replaces it, it ends by itself, and it
// never affects the command that sets it.
func TestConfigureFailPoint(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"count"}, Code: 8})
	follow(t, dialRaw(t, s), []step{
		{`{"configureFailPoint": "failCommand", "mode": {"times": 2}, "data": {"failCommands": ["find", "configureFailPoint"], "errorCode": 11602, "errorLabels": ["X"]}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"find": "c"}`, `{"ok": 0.0, "code": 11602, "errorLabels": ["X"]}`},
		{`{"ping": 1}`, `{"ok": 1.0}`},
		{`{"find": "c"}`, `{"ok": 0.0, "code": 11602}`},
		{`{"find": "c"}`, `{"ok": 1.0}`},
		{`{"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": ["find"], "errorCode": 1}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"configureFailPoint": "failCommand", "mode": {"skip": 1}, "data": {"failCommands": ["ping"], "errorCode": 2}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"find": "c"}`, `{"ok": 1.0}`},
		{`{"ping": 1}`, `{"ok": 1.0}`},
		{`{"ping": 1}`, `{"ok": 0.0, "code": 2}`},
		{`{"configureFailPoint": "failCommand", "mode": "off", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"ping": 1}`, `{"ok": 1.0}`},
		{`{"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": {"failCommands": ["insert"], "writeConcernError": {"code": 64}}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"insert": "c", "documents": [{"_id": 1}]}`, `{"n": 1, "writeConcernError": {"code": 64}}`},
		// A fault that a test has injected in another way stays.
		{`{"count": "c"}`, `{"ok": 0.0, "code": 8}`},
		{`{"configureFailPoint": "failCommand", "mode": "off"}`, `{"ok": 0.0, "code": 13}`},
		{`{"configureFailPoint": "other", "mode": "off", "$db": "admin"}`, `{"ok": 0.0, "code": 238}`},
		{`{"configureFailPoint": "failCommand", "mode": "sometimes", "$db": "admin"}`, `{"ok": 0.0, "code": 2}`},
		{`{"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": ["find"], "strange": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 238}`},
		{`{"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"errorCode": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 2}`},
	})
}
