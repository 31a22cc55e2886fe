package waterclock

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Policy is a policy in force, as far as a program usually asks. Raw has all of it.
type Policy struct {
	Name string `json:"name"`
	// Origin is "file", or "store" for a policy set at run time.
	Origin string `json:"origin"`
	// Mode is "binary", "partial" or "count-refusals".
	Mode string `json:"mode"`
	// Headers is the style of the response header fields.
	Headers string `json:"headers"`
	// Definition is the policy as it was set at run time; nil for one of the file.
	Definition json.RawMessage `json:"definition"`
	// Raw is the server's JSON.
	Raw json.RawMessage `json:"-"`
}

// PutPolicy sets a policy at run time. The definition is anything that
// encoding/json encodes as the configuration has the policy's table:
// map[string]any{"limits": []string{"5/m"}}. Setting the same policy again
// changes nothing, so a program can do it whenever it starts. A name that the
// configuration file has is an error. It needs the role admin.
func (c *Client) PutPolicy(ctx context.Context, name string, definition any) error {
	op := fmt.Sprintf("policy %q", name)
	text, err := json.Marshal(definition)
	if err != nil {
		return &Error{Kind: ErrInvalid, Op: op, Message: "the definition cannot be encoded", Err: err}
	}
	return c.call(ctx, op, 0, func(ctx context.Context) error {
		return c.transport.putPolicy(ctx, name, text)
	})
}

// GetPolicy returns the policy, or nil if there is none. It needs the role read.
func (c *Client) GetPolicy(ctx context.Context, name string) (*Policy, error) {
	var policy *Policy
	err := c.call(ctx, fmt.Sprintf("policy %q", name), 0, func(ctx context.Context) error {
		text, err := c.transport.getPolicy(ctx, name)
		if err != nil || text == nil {
			return err
		}
		policy = &Policy{Raw: text}
		return json.Unmarshal(text, policy)
	})
	return policy, err
}

// DeletePolicy deletes a policy that was set at run time, and says whether
// there was one. It needs the role admin.
func (c *Client) DeletePolicy(ctx context.Context, name string) (deleted bool, err error) {
	err = c.call(ctx, fmt.Sprintf("policy %q", name), 0, func(ctx context.Context) (err error) {
		deleted, err = c.transport.deletePolicy(ctx, name)
		return err
	})
	return deleted, err
}
