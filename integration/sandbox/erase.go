package sandbox

import (
	"context"
	"fmt"
	"regexp"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ErasureResult is the outcome of the third act.
type ErasureResult struct {
	// Person is the id of the aggregate that was erased.
	Person string
	// Printed is what the command printed, without the places that had nothing. Status is its
	// exit status.
	Printed string
	Status  int
}

// nothingFound matches the line of a place in which the command has found nothing.
var nothingFound = regexp.MustCompile(`(?m)^.*\s0\s+0\s+0\s*\n`)

// erase runs the third act: the command erases a person from every copy, and proves it.
func (r *run) erase(ctx context.Context) (*ErasureResult, error) {
	erasure := r.opts.Workload.Erasure
	r.monitor.setPhase(phaseErasing)
	// The name of the last person begins no other name.
	person, err := r.models.Collection(erasure.Collection).FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}})).Raw()
	if err != nil {
		return nil, fmt.Errorf("find a person to erase: %w", err)
	}
	result := &ErasureResult{Person: person.Lookup("_id").StringValue()}
	args := []string{"erase", "--aggregate=" + result.Person, "--why=the person asked for it", "--yes"}
	for _, field := range erasure.Mask {
		// The command refuses a field that no event of the person has.
		n, err := r.events.CountDocuments(ctx, bson.D{{Key: "aggregateId", Value: result.Person}, {Key: field, Value: bson.D{{Key: "$exists", Value: true}}}})
		if err != nil {
			return nil, fmt.Errorf("look for the fields to mask: %w", err)
		}
		if n > 0 {
			args = append(args, "--mask="+field)
		}
	}
	for _, field := range erasure.Values {
		value, _ := person.Lookup(field).StringValueOK()
		args = append(args, "--value="+value)
		r.opts.View.Note(fmt.Sprintf("%s %s of %s must not be left anywhere", field, value, result.Person))
	}
	out, err := r.pipeline.Projector(ctx, args...)
	if err != nil {
		return nil, err
	}
	result.Printed, result.Status = nothingFound.ReplaceAllString(string(out.Stdout), "")+string(out.Stderr), out.Status
	r.opts.View.Note(fmt.Sprintf("projector erase: status %d", out.Status))
	return result, nil
}
