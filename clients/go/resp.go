package waterclock

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// respTransport asks over the Redis protocol.
type respTransport struct {
	shared *respShared
	waits  *respWaits
}

func newRESPTransport(u *url.URL, s settings) (*respTransport, error) {
	if u.Path != "" && u.Path != "/" {
		return nil, invalid("the server's URL has the path %q; there are no databases to select", u.Path)
	}
	port := u.Port()
	if port == "" {
		port = "6380"
	}
	dialer := respDialer{address: net.JoinHostPort(u.Hostname(), port), token: s.token, deadline: s.deadline}
	if u.Scheme == "rediss" {
		dialer.tls = &tls.Config{}
		if s.tls != nil {
			dialer.tls = s.tls.Clone()
		}
	}
	return &respTransport{
		shared: newRESPShared(dialer, s.maxConnections),
		waits:  &respWaits{dialer: dialer},
	}, nil
}

func (t *respTransport) close() {
	t.shared.close()
	t.waits.close()
}

func (t *respTransport) decide(ctx context.Context, verb verb, q question) (Decision, error) {
	var reply respReply
	var err error
	if q.outcome != "" && q.cost != nil && q.cost != Cost(1) {
		return Decision{}, invalid("over the Redis protocol, one outcome is reported at a time; use an http:// URL")
	}
	if verb == verbWait {
		reply, err = t.waits.do(ctx, q.within, decisionCommand(verb, q))
	} else {
		reply, err = t.shared.do(ctx, decisionCommand(verb, q))
	}
	if err != nil {
		return Decision{}, err
	}
	return readDecision(reply.text)
}

// decisionCommand is the command whose answer is a decision in JSON.
func decisionCommand(verb verb, q question) []string {
	command := []string{"RL." + strings.ToUpper(string(verb)), q.policy, q.key}
	switch verb {
	case verbCheck, verbPeek:
		if q.cost != nil {
			command = append(command, q.cost.text())
		}
	case verbRefund:
		command = append(command, q.costText())
	case verbWait:
		// Rounded down: not longer than the caller may wait.
		command = append(command, q.costText(), strconv.FormatInt(q.within.Milliseconds(), 10))
	case verbReport:
		if q.outcome != "" {
			command = append(command, string(q.outcome))
		} else {
			command = append(command, q.costText())
		}
	case verbReserve:
		ttl := q.ttl
		if ttl == 0 {
			ttl = time.Minute // the server's default over HTTP
		}
		command = append(command, q.costText(), strconv.FormatInt(roundUp(ttl, time.Millisecond), 10))
	}
	command = appendTerms(command, q)
	if q.id != "" {
		command = append(command, "ID", q.id)
	}
	if q.release {
		command = append(command, "RELEASE")
	}
	return append(command, "JSON")
}

func appendTerms(command []string, q question) []string {
	if q.tier != "" {
		command = append(command, "TIER", q.tier)
	}
	if q.factor != "" {
		command = append(command, "FACTOR", string(q.factor))
	}
	return command
}

func (t *respTransport) checkAll(ctx context.Context, questions []question) (Batch, error) {
	if len(questions) == 0 {
		return Batch{}, invalid("there is nothing to check; pass at least one charge")
	}
	command := []string{"RL.CHECKS", strconv.Itoa(len(questions))}
	for _, q := range questions {
		if q.tier != questions[0].tier || q.factor != questions[0].factor {
			return Batch{}, invalid("over the Redis protocol, all charges have the same tier and factor; use an http:// URL")
		}
		command = append(command, q.policy, q.key, q.costText())
	}
	command = append(appendTerms(command, questions[0]), "JSON")
	reply, err := t.shared.do(ctx, command)
	if err != nil {
		return Batch{}, err
	}
	if len(reply.items) != len(questions) {
		return Batch{}, errNoDecision
	}
	batch := Batch{Allowed: true}
	for _, item := range reply.items {
		decision, err := readDecision(item.text)
		if err != nil {
			return Batch{}, err
		}
		batch.Allowed = batch.Allowed && decision.Allowed
		batch.Decisions = append(batch.Decisions, decision)
	}
	return batch, nil
}

func (t *respTransport) commit(ctx context.Context, id string, cost Amount) error {
	_, err := t.shared.do(ctx, []string{"RL.COMMIT", id, cost.text()})
	return err
}

func (t *respTransport) cancel(ctx context.Context, id string) error {
	_, err := t.shared.do(ctx, []string{"RL.CANCEL", id})
	return err
}

func (t *respTransport) setOverride(ctx context.Context, policy, key string, override []byte) error {
	_, err := t.shared.do(ctx, []string{"RL.OVERRIDE", policy, key, "SET", string(override)})
	return err
}

func (t *respTransport) getOverride(ctx context.Context, policy, key string) ([]byte, error) {
	reply, err := t.shared.do(ctx, []string{"RL.OVERRIDE", policy, key, "GET"})
	return reply.text, err
}

func (t *respTransport) clearOverride(ctx context.Context, policy, key string) error {
	_, err := t.shared.do(ctx, []string{"RL.OVERRIDE", policy, key, "CLEAR"})
	return err
}

func (t *respTransport) putPolicy(ctx context.Context, name string, definition []byte) error {
	_, err := t.shared.do(ctx, []string{"RL.POLICY", name, "SET", string(definition)})
	return err
}

func (t *respTransport) getPolicy(ctx context.Context, name string) ([]byte, error) {
	reply, err := t.shared.do(ctx, []string{"RL.POLICY", name, "GET"})
	return reply.text, err
}

func (t *respTransport) deletePolicy(ctx context.Context, name string) (bool, error) {
	reply, err := t.shared.do(ctx, []string{"RL.POLICY", name, "DEL"})
	return reply.number == 1, err
}
