"""The builder of the recorded machines that ship: nodes made up from public facts."""
