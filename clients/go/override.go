package waterclock

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// An Override is what applies to one key in place of the policy's limits. Set
// one of Limits, Factor, Tier, Block and Exempt.
type Override struct {
	// Limits are the key's own, as the configuration writes them: a text such
	// as "100/s", or an object as anything that encoding/json encodes.
	Limits []any
	// Factor scales the policy's limits.
	Factor Factor
	// Tier is the tier that applies, whatever tier a call names.
	Tier string
	// Block refuses the key always.
	Block bool
	// Exempt admits the key always, without counting.
	Exempt bool
	// ExpiresIn is how long the override applies; 0 is until it is cleared.
	ExpiresIn time.Duration
}

// SetOverride sets the override of a key, from its next check on. It needs the
// role admin.
func (c *Client) SetOverride(ctx context.Context, policy, key string, override Override) error {
	op := fmt.Sprintf("override of a key of %q", policy)
	text, err := json.Marshal(override)
	if err != nil {
		return &Error{Kind: ErrInvalid, Op: op, Message: "the override cannot be encoded", Err: err}
	}
	return c.call(ctx, op, 0, func(ctx context.Context) error {
		return c.transport.setOverride(ctx, policy, key, text)
	})
}

// GetOverride returns the override of a key that the store keeps, or nil.
// It needs the role admin.
func (c *Client) GetOverride(ctx context.Context, policy, key string) (*Override, error) {
	op := fmt.Sprintf("override of a key of %q", policy)
	var override *Override
	err := c.call(ctx, op, 0, func(ctx context.Context) error {
		text, err := c.transport.getOverride(ctx, policy, key)
		if err != nil || text == nil {
			return err
		}
		override = new(Override)
		return json.Unmarshal(text, override)
	})
	return override, err
}

// ClearOverride removes the override of a key, if there is one. It needs the
// role admin.
func (c *Client) ClearOverride(ctx context.Context, policy, key string) error {
	op := fmt.Sprintf("override of a key of %q", policy)
	return c.call(ctx, op, 0, func(ctx context.Context) error {
		return c.transport.clearOverride(ctx, policy, key)
	})
}

// MarshalJSON writes the override as the server reads it.
func (o Override) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	if o.Limits != nil {
		fields["limits"] = o.Limits
	}
	if o.Factor != "" {
		fields["factor"] = string(o.Factor)
	}
	if o.Tier != "" {
		fields["tier"] = o.Tier
	}
	if o.Block {
		fields["block"] = true
	}
	if o.Exempt {
		fields["exempt"] = true
	}
	if o.ExpiresIn != 0 {
		fields["expires_in"] = microseconds(o.ExpiresIn)
	}
	return json.Marshal(fields)
}

// UnmarshalJSON reads the override as the server writes it.
func (o *Override) UnmarshalJSON(text []byte) error {
	var read struct {
		Limits    []any           `json:"limits"`
		Factor    json.RawMessage `json:"factor"`
		Tier      string          `json:"tier"`
		Block     bool            `json:"block"`
		Exempt    bool            `json:"exempt"`
		ExpiresIn micros          `json:"expires_in_us"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*o = Override{
		Limits: read.Limits,
		// A number or a decimal text, digit by digit.
		Factor:    Factor(strings.Trim(string(read.Factor), `"`)),
		Tier:      read.Tier,
		Block:     read.Block,
		Exempt:    read.Exempt,
		ExpiresIn: time.Duration(read.ExpiresIn),
	}
	return nil
}
