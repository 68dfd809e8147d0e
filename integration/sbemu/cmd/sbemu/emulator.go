package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// emulatorFile is the configuration file of Microsoft's emulator:
// https://learn.microsoft.com/azure/service-bus-messaging/test-locally-with-service-bus-emulator
type emulatorFile struct {
	UserConfig struct {
		Namespaces []struct {
			Name   string
			Queues []struct {
				Name       string
				Properties emulatorProperties
			}
			Topics []struct {
				Name          string
				Properties    emulatorProperties
				Subscriptions []struct {
					Name       string
					Properties emulatorProperties
					Rules      []emulatorRule
				}
			}
		}
		Logging struct{ Type string }
	}
}

// emulatorProperties are those of queues, topics and subscriptions.
type emulatorProperties struct {
	DeadLetteringOnMessageExpiration    bool
	DefaultMessageTimeToLive            isoDuration
	DuplicateDetectionHistoryTimeWindow isoDuration
	ForwardDeadLetteredMessagesTo       string
	ForwardTo                           string
	LockDuration                        isoDuration
	MaxDeliveryCount                    uint32
	RequiresDuplicateDetection          bool
	RequiresSession                     bool
}

func (p emulatorProperties) window() time.Duration {
	if !p.RequiresDuplicateDetection {
		return 0
	}

	return time.Duration(p.DuplicateDetectionHistoryTimeWindow)
}

// emulatorRule is a rule of a subscription.
type emulatorRule struct {
	Name       string
	Properties struct {
		FilterType        string
		CorrelationFilter struct {
			ContentType, CorrelationID, Label, MessageID, ReplyTo, ReplyToSessionID, SessionID, To string

			Properties map[string]any
		}
		SQLFilter struct{ SQLExpression string }
		Action    struct{ SQLExpression string }
	}
}

func (r emulatorRule) rule() (sbemu.Rule, error) {
	c := r.Properties.CorrelationFilter

	switch {
	case r.Properties.Action.SQLExpression != "":
		return sbemu.Rule{}, fmt.Errorf("rule %q: an action is not supported in the file: create it by the administration API", r.Name)
	case strings.EqualFold(r.Properties.FilterType, "Sql"):
		return sbemu.Rule{Name: r.Name, SQL: r.Properties.SQLFilter.SQLExpression}, nil
	case strings.EqualFold(r.Properties.FilterType, "Correlation"):
		return sbemu.Rule{Name: r.Name, Correlation: &sbemu.Correlation{
			MessageID: c.MessageID, CorrelationID: c.CorrelationID, SessionID: c.SessionID, ReplyToSessionID: c.ReplyToSessionID,
			To: c.To, ReplyTo: c.ReplyTo, Subject: c.Label, ContentType: c.ContentType, Properties: c.Properties,
		}}, nil
	default:
		return sbemu.Rule{}, fmt.Errorf("rule %q: the filter type is %q: use Sql or Correlation", r.Name, r.Properties.FilterType)
	}
}

// isoDuration is a duration of ISO 8601, such as PT1M30S.
type isoDuration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *isoDuration) UnmarshalText(text []byte) error {
	s := string(text)
	date, clock, _ := strings.Cut(strings.TrimPrefix(s, "P"), "T")

	var total time.Duration

	if days, found := strings.CutSuffix(date, "D"); found {
		n, err := strconv.ParseUint(days, 10, 15)
		if err != nil {
			return fmt.Errorf("%q is not a duration of ISO 8601", s)
		}

		total, date = time.Duration(n)*24*time.Hour, ""
	}

	if clock != "" {
		// Go writes the same units in lower case.
		parsed, err := time.ParseDuration(strings.ToLower(clock))
		if err != nil || parsed < 0 {
			return fmt.Errorf("%q is not a duration of ISO 8601", s)
		}

		total += parsed
	}

	if !strings.HasPrefix(s, "P") || date != "" {
		return fmt.Errorf("%q is not a duration of ISO 8601", s)
	}

	*d = isoDuration(total)

	return nil
}

// readEmulatorFile returns the entities of the emulator's configuration file. Like the
// emulator, it accepts one namespace.
func readEmulatorFile(path string) (sbemu.Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return sbemu.Config{}, err
	}

	var file emulatorFile
	if err := json.Unmarshal(content, &file); err != nil {
		return sbemu.Config{}, fmt.Errorf("read %s: %w", path, err)
	}

	if n := len(file.UserConfig.Namespaces); n != 1 {
		return sbemu.Config{}, fmt.Errorf("read %s: UserConfig.Namespaces has %d namespaces: use one", path, n)
	}

	var (
		cfg  sbemu.Config
		errs []error
	)

	for _, q := range file.UserConfig.Namespaces[0].Queues {
		p := q.Properties
		cfg.Queues = append(cfg.Queues, sbemu.Queue{
			Name: q.Name, DuplicateDetectionWindow: p.window(), DefaultTTL: time.Duration(p.DefaultMessageTimeToLive),
			RequiresSession: p.RequiresSession, LockDuration: time.Duration(p.LockDuration), MaxDeliveryCount: p.MaxDeliveryCount,
			DeadLetterExpired: p.DeadLetteringOnMessageExpiration,
			ForwardTo:         p.ForwardTo, ForwardDeadLettersTo: p.ForwardDeadLetteredMessagesTo,
		})
	}

	for _, t := range file.UserConfig.Namespaces[0].Topics {
		topic := sbemu.Topic{
			Name: t.Name, DuplicateDetectionWindow: t.Properties.window(),
			DefaultTTL: time.Duration(t.Properties.DefaultMessageTimeToLive),
		}

		for _, s := range t.Subscriptions {
			p := s.Properties
			subscription := sbemu.Subscription{
				Name: s.Name, RequiresSession: p.RequiresSession, LockDuration: time.Duration(p.LockDuration),
				MaxDeliveryCount: p.MaxDeliveryCount, DefaultTTL: time.Duration(p.DefaultMessageTimeToLive),
				DeadLetterExpired: p.DeadLetteringOnMessageExpiration,
				ForwardTo:         p.ForwardTo, ForwardDeadLettersTo: p.ForwardDeadLetteredMessagesTo,
			}

			for _, r := range s.Rules {
				rule, err := r.rule()
				errs = append(errs, err)
				subscription.Rules = append(subscription.Rules, rule)
			}

			topic.Subscriptions = append(topic.Subscriptions, subscription)
		}

		cfg.Topics = append(cfg.Topics, topic)
	}

	if err := errors.Join(errs...); err != nil {
		return sbemu.Config{}, fmt.Errorf("read %s: %w", path, err)
	}

	return cfg, nil
}

// emulatorHandler serves what the emulator serves on its HTTP port: /health, and the
// administration API.
func emulatorHandler(srv *sbemu.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", srv.AdminHandler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"healthy","message":"Service is healthy."}`)
	})

	return mux
}
