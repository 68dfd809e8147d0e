package command

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// configureFailPoint sets the fail point failCommand, with which driver tests make
// commands fail. A MongoDB server supports it if test commands are enabled.
func configureFailPoint(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	if r.value.Type != bsoncore.TypeString {
		return wrongType(r.Name, r.Name, r.value, "string")
	}
	if name := string(bsonraw.Text(r.value)); name != "failCommand" {
		return mongoerr.Lacking("the fail point %q", name)
	}
	var data []byte
	var mode bsonraw.Value
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "mode":
			mode = v
		case "data":
			data, err = documentOption(r, key, v)
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return err
	}
	f := fault.Command{}
	on, err := failPointMode(mode, &f)
	if err != nil || !on {
		if err == nil {
			e.Faults.SetFailPoint(nil)
		}
		return err
	}
	if err := failPointData(r, data, &f); err != nil {
		return err
	}
	e.Faults.SetFailPoint(&f)
	return nil
}

// failPointMode parses "alwaysOn", "off", {times: n} or {skip: n}.
func failPointMode(v bsonraw.Value, f *fault.Command) (on bool, err error) {
	switch v.Type {
	case bsoncore.TypeString:
		switch mode := string(bsonraw.Text(v)); mode {
		case "off":
			return false, nil
		case "alwaysOn":
			f.Times = -1
			return true, nil
		default:
			return false, mongoerr.New(mongoerr.BadValue, "unknown mode: %s", mode)
		}
	case bsoncore.TypeEmbeddedDocument:
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			n, ok := bsonraw.Int64(it.Value())
			if !ok || n < 0 || n > 1<<31-1 {
				return false, mongoerr.New(mongoerr.BadValue, "'%s' must be a non-negative integer: %s", it.Key(), bsonraw.Format(it.Value()))
			}
			switch key := string(it.Key()); key {
			case "times":
				f.Times = int(n)
				return n > 0, nil
			case "skip":
				f.Skip, f.Times = int(n), -1
				return true, nil
			case "activationProbability":
				return false, mongoerr.Lacking("the fail point mode %q", key)
			default:
				return false, mongoerr.New(mongoerr.BadValue, "unknown mode: %s", key)
			}
		}
	}
	return false, mongoerr.New(mongoerr.BadValue, "'mode' must be one of 'off', 'alwaysOn', 'times', and 'activationProbability'")
}

func failPointData(r *Request, data []byte, f *fault.Command) error {
	blocks := false
	for it := bsonraw.NewIter(data); data != nil && it.Next(); {
		v := it.Value()
		var err error
		switch key := string(it.Key()); key {
		case "failCommands":
			f.Commands, err = stringList(r, "data.failCommands", v)
		case "errorLabels":
			f.Labels, err = stringList(r, "data.errorLabels", v)
			if f.Labels == nil {
				f.Labels = []string{}
			}
		case "errorCode":
			f.Code, err = code(r, "data.errorCode", v)
		case "closeConnection":
			err = r.flag("data.closeConnection", v, &f.CloseConnection)
		case "blockConnection":
			err = r.flag("data.blockConnection", v, &blocks)
		case "blockTimeMS":
			var ms int64
			ms, err = nonNegative(r, "data.blockTimeMS", v)
			f.Block = time.Duration(ms) * time.Millisecond
		case "appName":
			if v.Type != bsoncore.TypeString {
				return wrongType(r.Name, "data.appName", v, "string")
			}
			f.AppName = string(bsonraw.Text(v))
		case "writeConcernError":
			var inner []byte
			if inner, err = documentOption(r, "data.writeConcernError", v); err == nil {
				number, _ := bsonraw.Lookup(inner, "code")
				f.WriteConcernCode, err = code(r, "data.writeConcernError.code", number)
			}
		default:
			err = mongoerr.Lacking("the fail point's field %q", key)
		}
		if err != nil {
			return err
		}
	}
	if !blocks {
		f.Block = 0
	}
	if len(f.Commands) == 0 {
		return mongoerr.New(mongoerr.BadValue, "the fail point failCommand needs data.failCommands")
	}
	return nil
}

func code(r *Request, field string, v bsonraw.Value) (int32, error) {
	n, ok := bsonraw.Int64(v)
	if !ok || n < 0 || n > 1<<31-1 {
		return 0, wrongType(r.Name, field, v, "int")
	}
	return int32(n), nil
}

func stringList(r *Request, field string, v bsonraw.Value) ([]string, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, wrongType(r.Name, field, v, "array")
	}
	var list []string
	for _, e := range bsonraw.Elements(v.Data) {
		if e.Type != bsoncore.TypeString {
			return nil, wrongType(r.Name, field, e, "string")
		}
		list = append(list, string(bsonraw.Text(e)))
	}
	return list, nil
}
