"""What only the project needs: measurements, their records and pages. Not in the wheel."""
